-- Which hosts spend the most CPU time in memory management, per second that was traced with an account of the time.
-- `mechanism` is the dearest there.
with sums as (
  select t.host                               as host,
         a.mechanism                          as mechanism,
         cast(sum(a.cpu_ns) as bigint)        as cpu_ns,
         cast(sum(a.blocked_ns) as bigint)    as blocked_ns,
         row_number() over (partition by t.host order by sum(a.cpu_ns) desc, sum(a.blocked_ns) desc, a.mechanism) as place
  from account a
  join traces t on t.trace = a.trace
  group by t.host, a.mechanism
),
traced as (
  select t.host                               as host,
         count(*)                             as traces,
         cast(sum(t.traced_ns) as bigint)     as traced_ns
  from traces t
  where t.trace in (select trace from account)
  group by t.host
)
select s.host                                              as host,
       max(d.traces)                                       as traces,
       max(d.traced_ns)                                    as traced_ns,
       cast(sum(s.cpu_ns) as bigint)                       as cpu_ns,
       cast(sum(s.blocked_ns) as bigint)                   as blocked_ns,
       case when max(d.traced_ns) > 0
            then cast(sum(s.cpu_ns) as double) / cast(max(d.traced_ns) as double)
       end                                                 as of_a_cpu,
       max(case when s.place = 1 then s.mechanism end)     as mechanism,
       max(case when s.place = 1 then s.cpu_ns end)        as mechanism_cpu_ns
from sums s
join traced d on d.host = s.host
group by s.host
order by coalesce(of_a_cpu, 0) desc, host
