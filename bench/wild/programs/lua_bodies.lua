-- Three bodies that draw each other, step by step.
local bodies = { { 0, 0, 0, 0, 1 }, { 1, 0, 0, 1, 1e-3 }, { 0, 2, -0.7, 0, 1e-3 } }
for _ = 1, tonumber(arg[1]) do
  for i = 1, #bodies do
    local a = bodies[i]
    for j = 1, #bodies do
      if i ~= j then
        local b = bodies[j]
        local x, y = b[1] - a[1], b[2] - a[2]
        local far = x * x + y * y + 1e-6
        local pull = b[5] / (far * math.sqrt(far)) * 1e-4
        a[3], a[4] = a[3] + x * pull, a[4] + y * pull
      end
    end
  end
  for i = 1, #bodies do
    local a = bodies[i]
    a[1], a[2] = a[1] + a[3] * 1e-4, a[2] + a[4] * 1e-4
  end
end
print(string.format("%.6f %.6f", bodies[2][1], bodies[2][2]))
