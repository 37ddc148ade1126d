//! The tables of a profile: strings, functions, mappings and locations, each once.

use std::collections::HashMap;
use std::path::Path;

use indexmap::{IndexMap, IndexSet};
use quell_event::trace::{StackFrame, TracedProcess};

use super::proto::{Function, Location, PprofProfile, ProfileLine, ProfileMapping};

/// Where the kernel lies on x86-64: the upper half.
const KERNEL_START: u64 = 0xffff_8000_0000_0000;
/// The name that perf and pprof give the kernel's mapping.
const KERNEL_MAPPING: &str = "[kernel.kallsyms]";
/// The function of samples without a stack.
const NO_STACK_NAME: &str = "[no stack]";

/// The identity of a location: the process (the kernel has none), the address, the function.
type LocationKey = (Option<u32>, u64, u64);

/// The tables. Strings are numbered from 0, all others from 1.
pub(super) struct CodeTables<'a> {
    processes: &'a HashMap<u32, TracedProcess>,
    strings: IndexSet<String>,
    /// By name and file.
    functions: IndexMap<(i64, i64), Function>,
    /// By process and start.
    mappings: IndexMap<(Option<u32>, u64), ProfileMapping>,
    locations: IndexMap<LocationKey, Location>,
}

impl<'a> CodeTables<'a> {
    pub(super) fn new(processes: &'a HashMap<u32, TracedProcess>) -> Self {
        Self {
            processes,
            // The format wants the empty string at 0.
            strings: IndexSet::from([String::new()]),
            functions: IndexMap::new(),
            mappings: IndexMap::new(),
            locations: IndexMap::new(),
        }
    }

    /// The number of a string.
    pub(super) fn string_id(&mut self, text: &str) -> i64 {
        let known = self.strings.get_index_of(text);
        known.unwrap_or_else(|| self.strings.insert_full(text.to_owned()).0) as i64
    }

    /// The number of a frame of a process, or of the kernel where `pid` is `None`.
    pub(super) fn location_id(&mut self, pid: Option<u32>, frame: &StackFrame) -> u64 {
        let name = frame.symbol.clone().unwrap_or_else(|| frame.to_string());
        let function = self.function_id(&name, frame.module.as_deref().unwrap_or_default());
        let place = (pid, frame.addr, function);
        match self.locations.get(&place) {
            Some(known) => known.id,
            None => {
                let mapping = self.mapping_id(pid, frame.addr);
                self.add_location(place, mapping)
            }
        }
    }

    /// The location of samples without a stack.
    pub(super) fn no_stack_location(&mut self) -> u64 {
        let function = self.function_id(NO_STACK_NAME, "");
        self.add_location((None, 0, function), 0)
    }

    /// Hands the tables over.
    pub(super) fn into_profile(self, profile: &mut PprofProfile) {
        profile.string_table = self.strings.into_iter().collect();
        profile.function = self.functions.into_values().collect();
        profile.mapping = self.mappings.into_values().collect();
        profile.location = self.locations.into_values().collect();
    }

    fn add_location(&mut self, place: LocationKey, mapping_id: u64) -> u64 {
        let (_, address, function_id) = place;
        let id = self.locations.len() as u64 + 1;
        let line = vec![ProfileLine { function_id }];
        let new = || Location {
            id,
            mapping_id,
            address,
            line,
        };
        self.locations.entry(place).or_insert_with(new).id
    }

    fn function_id(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string_id(name), self.string_id(file));
        let id = self.functions.len() as u64 + 1;
        let new = || Function {
            id,
            name,
            system_name: name,
            filename,
        };
        self.functions
            .entry((name, filename))
            .or_insert_with(new)
            .id
    }

    /// The mapping at an address; 0, which is none in the format, where it is not known or of no file, such as `[heap]`.
    fn mapping_id(&mut self, pid: Option<u32>, address: u64) -> u64 {
        let Some(number) = pid else {
            return self.add_mapping(None, KERNEL_START, u64::MAX, 0, KERNEL_MAPPING, "");
        };
        let processes = self.processes;
        let process = processes.get(&number);
        let Some(module) = process.and_then(|p| p.module_at(address)) else {
            return 0;
        };
        if !Path::new(&module.path).is_absolute() {
            return 0;
        }
        let build_id = module.build_id.as_deref().unwrap_or_default();
        let (start, end) = (module.start, module.end);
        self.add_mapping(pid, start, end, module.offset, &module.path, build_id)
    }

    fn add_mapping(
        &mut self,
        pid: Option<u32>,
        start: u64,
        limit: u64,
        offset: u64,
        path: &str,
        build_id: &str,
    ) -> u64 {
        let (filename, build_id) = (self.string_id(path), self.string_id(build_id));
        let id = self.mappings.len() as u64 + 1;
        let new = || ProfileMapping {
            id,
            start,
            limit,
            offset,
            filename,
            build_id,
            has_functions: true,
        };
        self.mappings.entry((pid, start)).or_insert_with(new).id
    }
}
