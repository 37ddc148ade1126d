-- Which causes cost the fleet the most: what culprits waited and victims were stalled, of all hosts together.
select n.cause                                        as cause,
       cast(sum(n.shootdowns) as bigint)              as shootdowns,
       cast(sum(n.victims) as bigint)                 as victims,
       cast(sum(n.wait_ns) as bigint)                 as wait_ns,
       cast(sum(n.stall_ns) as bigint)                as stall_ns,
       cast(sum(n.wait_ns) + sum(n.stall_ns) as bigint) as cost_ns,
       count(distinct t.host)                         as hosts
from (select trace,
             cause,
             count(*) filter (where victim_index = 0)                as shootdowns,
             count(*)                                                as victims,
             sum(case when victim_index = 0 then wait_ns else 0 end) as wait_ns,
             sum(stall_ns)                                           as stall_ns
      from hits
      group by trace, cause) n
join traces t on t.trace = n.trace
group by n.cause
order by cost_ns desc, cause
