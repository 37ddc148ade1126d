-- Which remedy could win the most CPU seconds, and for whom: the time of what it can touch, in traces with an account of the time.
-- It is the most that each could win by itself, and only runs can tell which does. `host` is the one that would win most.
with per_host as (
  select w.remedy                             as remedy,
         w.asker                              as asker,
         t.host                               as host,
         cast(sum(w.cpu_ns) as bigint)        as cpu_ns,
         cast(sum(w.blocked_ns) as bigint)    as blocked_ns,
         row_number() over (partition by w.remedy, w.asker
                            order by sum(w.cpu_ns) desc, sum(w.blocked_ns) desc, t.host) as place
  from wins w
  join traces t on t.trace = w.trace
  group by w.remedy, w.asker, t.host
),
programs as (
  select w.remedy                             as remedy,
         w.asker                              as asker,
         count(distinct w.program)            as binaries
  from wins w
  group by w.remedy, w.asker
)
select h.remedy                                              as remedy,
       h.asker                                               as asker,
       cast(sum(h.cpu_ns) as bigint)                         as cpu_ns,
       cast(sum(h.blocked_ns) as bigint)                     as blocked_ns,
       max(p.binaries)                                       as binaries,
       count(*)                                              as hosts,
       max(case when h.place = 1 then h.host end)            as host,
       max(case when h.place = 1 then h.cpu_ns end)          as host_cpu_ns
from per_host h
join programs p on p.remedy = h.remedy and p.asker = h.asker
group by h.remedy, h.asker
order by cpu_ns desc, blocked_ns desc, remedy, asker
