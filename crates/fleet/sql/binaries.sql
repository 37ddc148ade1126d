-- Which binaries cost the most, by the culprit's executable and its build id. What has no executable is the kernel's, or
-- had ended before it was looked at: it goes by the thread's name.
select n.program                                      as program,
       n.build_id                                     as build_id,
       cast(sum(n.shootdowns) as bigint)              as shootdowns,
       cast(sum(n.victims) as bigint)                 as victims,
       cast(sum(n.wait_ns) as bigint)                 as wait_ns,
       cast(sum(n.stall_ns) as bigint)                as stall_ns,
       cast(sum(n.wait_ns) + sum(n.stall_ns) as bigint) as cost_ns,
       count(distinct t.host)                         as hosts
from (select h.trace as trace,
             coalesce(p.program, case when h.syscall < -1 then '[kernel]' else concat('[', h.comm, ']') end) as program,
             coalesce(p.build_id, '')                                    as build_id,
             count(*) filter (where h.victim_index = 0)                  as shootdowns,
             count(*)                                                    as victims,
             sum(case when h.victim_index = 0 then h.wait_ns else 0 end) as wait_ns,
             sum(h.stall_ns)                                             as stall_ns
      from hits h
      left join processes p on p.trace = h.trace and p.pid = h.pid and h.t_ns >= p.from_ns and h.t_ns < p.to_ns
      group by 1, 2, 3) n
join traces t on t.trace = n.trace
group by n.program, n.build_id
order by cost_ns desc, program, build_id
