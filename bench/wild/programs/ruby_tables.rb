# Reads a table into hashes, sorts and groups it.
2.times do
  rows = File.foreach(ARGV[0]).drop(1).map { |line| line.chomp.split(',') }
  sorted = rows.sort_by { |row| [row[1], row[3].to_i] }
  groups = sorted.group_by { |row| row[2] }.transform_values { |all| all.map { |row| row[1] + row[5] }.join(' ').upcase }
  puts "#{groups.size} #{groups.values.sum(&:length)}"
end
