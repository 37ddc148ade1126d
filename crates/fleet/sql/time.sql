-- What costs the fleet the most CPU time: by mechanism, program and function, where a trace has an account of the time.
-- `host` is the one that it costs most, and `blocked_ns` how long threads slept for it.
with per_host as (
  select a.mechanism                          as mechanism,
         a.program                            as program,
         a.code                               as code,
         t.host                               as host,
         cast(sum(a.cpu_ns) as bigint)        as cpu_ns,
         cast(sum(a.blocked_ns) as bigint)    as blocked_ns,
         row_number() over (partition by a.mechanism, a.program, a.code
                            order by sum(a.cpu_ns) desc, sum(a.blocked_ns) desc, t.host) as place
  from account a
  join traces t on t.trace = a.trace
  group by a.mechanism, a.program, a.code, t.host
)
select mechanism                                             as mechanism,
       program                                               as program,
       code                                                  as code,
       cast(sum(cpu_ns) as bigint)                           as cpu_ns,
       cast(sum(blocked_ns) as bigint)                       as blocked_ns,
       count(*)                                              as hosts,
       max(case when place = 1 then host end)                as host,
       max(case when place = 1 then cpu_ns end)              as host_cpu_ns
from per_host
group by mechanism, program, code
order by cpu_ns desc, blocked_ns desc, mechanism, program, code
