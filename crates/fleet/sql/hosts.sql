-- Which hosts suffer most, per second that was traced.
select t.host                                       as host,
       cast(sum(1) as bigint)                       as traces,
       cast(sum(t.traced_ns) as bigint)             as traced_ns,
       cast(sum(coalesce(n.shootdowns, 0)) as bigint) as shootdowns,
       cast(sum(coalesce(n.victims, 0)) as bigint)  as victims,
       cast(sum(coalesce(n.wait_ns, 0)) as bigint)  as wait_ns,
       cast(sum(coalesce(n.stall_ns, 0)) as bigint) as stall_ns,
       case when sum(t.traced_ns) > 0
            then cast(sum(coalesce(n.shootdowns, 0)) as double) / cast(sum(t.traced_ns) as double) * 1e9
       end                                          as per_s
from traces t
left join (select trace,
                  count(*) filter (where victim_index = 0)                as shootdowns,
                  count(*)                                                as victims,
                  sum(case when victim_index = 0 then wait_ns else 0 end) as wait_ns,
                  sum(stall_ns)                                           as stall_ns
           from hits
           group by trace) n on n.trace = t.trace
group by t.host
order by coalesce(per_s, 0) desc, host
