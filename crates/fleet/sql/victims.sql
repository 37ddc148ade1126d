-- Who is hit: by what ran there. A process is known by its executable where it is a culprit too, else by its thread's name.
-- Bystanders are hits by a flush that had nothing to do with them. `cpu` is the CPU that was hit most, of any host.
with hit as (
  select h.trace              as trace,
         case when h.seen = 0 then '[unseen]'
              when h.victim_pid = 0 then '[idle]'
              else coalesce(p.program, concat('[', h.victim_comm, ']')) end as program,
         h.victim_cpu         as cpu,
         count(*)             as hits,
         sum(h.stall_ns)      as stall_ns,
         sum(h.delay_ns)      as delay_ns,
         sum(h.bystander)     as bystanders
  from hits h
  left join processes p on p.trace = h.trace and p.pid = h.victim_pid and h.t_ns >= p.from_ns and h.t_ns < p.to_ns
  group by 1, 2, 3
),
cpus as (
  select program, cpu, cast(sum(hits) as bigint) as hits,
         row_number() over (partition by program order by sum(hits) desc, cpu) as place
  from hit
  group by program, cpu
)
select h.program                           as program,
       cast(sum(h.hits) as bigint)         as hits,
       cast(sum(h.stall_ns) as bigint)     as stall_ns,
       cast(sum(h.delay_ns) as bigint)     as delay_ns,
       cast(sum(h.bystanders) as bigint)   as bystanders,
       count(distinct t.host)              as hosts,
       count(distinct h.cpu)               as cpus,
       max(c.cpu)                          as cpu,
       max(c.hits)                         as cpu_hits
from hit h
join traces t on t.trace = h.trace
join cpus c on c.program = h.program and c.place = 1
group by h.program
order by stall_ns desc, program
