<?php
// Reads a table into arrays, sorts and groups it, as a report does.
ini_set('memory_limit', '1500M');
for ($round = 0; $round < 2; $round++) {
    $rows = [];
    foreach (file($argv[1]) as $line) {
        $rows[] = explode(',', rtrim($line));
    }
    usort($rows, fn($a, $b) => [$a[1], $a[3]] <=> [$b[1], $b[3]]);
    $groups = [];
    foreach ($rows as $row) {
        $groups[$row[2]][] = strtoupper($row[1]) . $row[5];
    }
    ksort($groups);
    echo count($groups), ' ', strlen(serialize($groups)), "\n";
}
