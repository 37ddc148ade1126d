//! The binary as its users see it. One program, for every one links all of quell.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "for who reads the log"
)]

mod account;
mod account_clocks;
mod account_delays;
mod account_sums;
mod account_threads;
mod agent;
mod agent_clock;
mod agent_disk;
mod agent_rights;
mod agent_stress;
mod agent_time;
mod agents;
mod broken_plans;
mod cases;
mod causes;
mod common;
mod compare;
mod delay_spans;
mod doctor;
mod exact;
mod export;
mod fleet;
mod hostile;
mod hotplug;
mod input;
mod interrupt;
mod ipi;
mod lab;
mod lab_curve;
mod lab_leaves;
mod lab_nodes;
mod lab_run;
mod lab_verbs;
mod lockdown;
mod moving;
mod perf;
mod perf_sleeps;
mod preload;
mod prove;
mod run;
mod runs_on;
mod singles;
mod small_memory;
mod strangers;
mod symbols;
mod taskstats;
mod top;
mod unwind;
