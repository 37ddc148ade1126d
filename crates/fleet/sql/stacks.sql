-- Which code asks for the most: by stack, the same on every host. The program's stack, or the kernel's where there is
-- none. Shootdowns without any stack are left out.
select s.frames                          as stack,
       s.caller                          as caller,
       cast(sum(n.shootdowns) as bigint) as shootdowns,
       cast(sum(n.victims) as bigint)    as victims,
       cast(sum(n.wait_ns) as bigint)    as wait_ns,
       cast(sum(n.stall_ns) as bigint)   as stall_ns,
       cast(sum(n.wait_ns) + sum(n.stall_ns) as bigint) as cost_ns,
       count(distinct t.host)            as hosts
from (select trace,
             case when user_stack >= 0 then user_stack else kernel_stack end as stack,
             count(*) filter (where victim_index = 0)                        as shootdowns,
             count(*)                                                        as victims,
             sum(case when victim_index = 0 then wait_ns else 0 end)         as wait_ns,
             sum(stall_ns)                                                   as stall_ns
      from hits
      group by 1, 2) n
join stacks s on s.trace = n.trace and s.stack = n.stack
join traces t on t.trace = n.trace
group by s.frames, s.caller
order by cost_ns desc, stack, caller
