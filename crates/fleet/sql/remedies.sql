-- Which remedy would stop the most, as a plan predicts it, and for whom. `asker` is the allocator that the stack or the mapped
-- libraries tell, the program's own calls, or ending threads. What no remedy stops is in the rows without one.
with asked as (
  select h.trace as trace,
         coalesce(s.asker, p.asker, '') as asker,
         h.cause as cause,
         coalesce(p.program, case when h.syscall < -1 then '[kernel]' else concat('[', h.comm, ']') end) as program,
         count(*)       as shootdowns,
         sum(h.wait_ns) as wait_ns
  from shootdowns h
  left join stacks s on s.trace = h.trace and s.stack = h.user_stack
  left join processes p on p.trace = h.trace and p.pid = h.pid and h.t_ns >= p.from_ns and h.t_ns < p.to_ns
  group by 1, 2, 3, 4
)
select coalesce(r.remedy, '')                as remedy,
       a.asker                               as asker,
       cast(sum(a.shootdowns) as bigint)     as shootdowns,
       cast(floor(cast(sum(a.shootdowns * coalesce(r.permille, 0)) as double) / 1e3) as bigint) as stops,
       cast(sum(a.wait_ns) as bigint)        as wait_ns,
       count(distinct a.program)              as binaries,
       count(distinct t.host)                as hosts
from asked a
join traces t on t.trace = a.trace
left join remedies r on r.asker = a.asker and r.cause = a.cause
group by 1, 2
order by stops desc, shootdowns desc, remedy, asker
