-- What changed: the last period (7 days) against the one before, by binary and cause. It is in shootdowns per second that
-- was traced, so that more traces don't look like more shootdowns. More and less is by a quarter and beyond, and what has
-- less than 50 shootdowns in both is left out. The build ids are those with the most shootdowns.
with traced as (
  select cast(sum(case when period = 0 then traced_ns else 0 end) as double) as now_ns,
         cast(sum(case when period = 1 then traced_ns else 0 end) as double) as before_ns
  from traces
),
of_traces as (
  select s.trace as trace,
         coalesce(p.program, case when s.syscall < -1 then '[kernel]' else concat('[', s.comm, ']') end) as program,
         coalesce(p.build_id, '') as build_id,
         s.cause                  as cause,
         count(*)                 as shootdowns
  from shootdowns s
  left join processes p on p.trace = s.trace and p.pid = s.pid and s.t_ns >= p.from_ns and s.t_ns < p.to_ns
  where s.trace in (select trace from traces where period < 2)
  group by 1, 2, 3, 4
),
counted as (
  select t.period as period, n.program as program, n.build_id as build_id, n.cause as cause,
         sum(n.shootdowns) as shootdowns
  from of_traces n
  join traces t on t.trace = n.trace
  group by 1, 2, 3, 4
),
ranked as (
  select period, program, build_id, cause, shootdowns,
         row_number() over (partition by period, program, cause order by shootdowns desc, build_id) as place
  from counted
),
each as (
  select program,
         cause,
         cast(sum(case when period = 1 then shootdowns else 0 end) as bigint) as shootdowns_before,
         cast(sum(case when period = 0 then shootdowns else 0 end) as bigint) as shootdowns_now,
         max(case when period = 1 and place = 1 then build_id end)            as build_before,
         max(case when period = 0 and place = 1 then build_id end)            as build_now
  from ranked
  group by program, cause
),
rated as (
  select e.*,
         cast(shootdowns_before as double) / before_ns * 1e9 as before_per_s,
         cast(shootdowns_now as double) / now_ns * 1e9       as now_per_s
  from each e
  cross join traced
  where before_ns > 0 and now_ns > 0 and (shootdowns_before >= 50 or shootdowns_now >= 50)
),
judged as (
  select case when shootdowns_before = 0 then 'new'
              when shootdowns_now = 0 then 'gone'
              when now_per_s >= before_per_s * 1.25e0 then 'more'
              when before_per_s >= now_per_s * 1.25e0 then 'less'
         end as change,
         r.*
  from rated r
)
select change, program, cause, before_per_s, now_per_s, shootdowns_before, shootdowns_now, build_before, build_now
from judged
where change is not null
order by abs(now_per_s - before_per_s) desc, program, cause
