//! The tables of a profile: strings, functions, mappings and locations, each once.

use std::collections::HashMap;
use std::path::Path;

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

/// The tables.
pub(super) struct CodeTables<'a> {
    processes: &'a HashMap<u32, TracedProcess>,
    strings: HashMap<String, i64>,
    string_table: Vec<String>,
    /// By name and file.
    functions: HashMap<(i64, i64), u64>,
    function: Vec<Function>,
    /// By process and start.
    mappings: HashMap<(Option<u32>, u64), u64>,
    mapping: Vec<ProfileMapping>,
    locations: HashMap<LocationKey, u64>,
    location: Vec<Location>,
}

impl<'a> CodeTables<'a> {
    pub(super) fn new(processes: &'a HashMap<u32, TracedProcess>) -> Self {
        let mut code = Self {
            processes,
            strings: HashMap::new(),
            string_table: Vec::new(),
            functions: HashMap::new(),
            function: Vec::new(),
            mappings: HashMap::new(),
            mapping: Vec::new(),
            locations: HashMap::new(),
            location: Vec::new(),
        };
        // The format wants the empty string at 0.
        code.string_id("");
        code
    }

    /// The number of a string, from 0.
    pub(super) fn string_id(&mut self, text: &str) -> i64 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.string_table.len() as i64;
        self.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    /// The number of a frame of a process, or of the kernel, from 1.
    pub(super) fn location_id(&mut self, pid: Option<u32>, frame: &StackFrame) -> u64 {
        let name = frame.symbol.clone().unwrap_or_else(|| frame.to_string());
        let function = self.function_id(&name, frame.module.as_deref().unwrap_or_default());
        let place = (pid, frame.addr, function);
        if let Some(id) = self.locations.get(&place) {
            return *id;
        }
        let mapping = self.mapping_id(pid, frame.addr);
        self.add(place, mapping)
    }

    /// The location of samples without a stack.
    pub(super) fn no_stack_location(&mut self) -> u64 {
        let function = self.function_id(NO_STACK_NAME, "");
        let place = (None, 0, function);
        match self.locations.get(&place) {
            Some(id) => *id,
            None => self.add(place, 0),
        }
    }

    /// Hands the tables over.
    pub(super) fn into_profile(self, profile: &mut PprofProfile) {
        profile.string_table = self.string_table;
        profile.function = self.function;
        profile.mapping = self.mapping;
        profile.location = self.location;
    }

    fn add(&mut self, place: LocationKey, mapping_id: u64) -> u64 {
        let (_, address, function_id) = place;
        let id = self.location.len() as u64 + 1;
        self.location.push(Location {
            id,
            mapping_id,
            address,
            line: vec![ProfileLine { function_id }],
        });
        self.locations.insert(place, id);
        id
    }

    fn function_id(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string_id(name), self.string_id(file));
        let id = self.function.len() as u64 + 1;
        *self.functions.entry((name, filename)).or_insert_with(|| {
            self.function.push(Function {
                id,
                name,
                system_name: name,
                filename,
            });
            id
        })
    }

    /// The mapping of a file at an address, 0 where none is known.
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
        if let Some(id) = self.mappings.get(&(pid, start)) {
            return *id;
        }
        let id = self.mapping.len() as u64 + 1;
        let (filename, build_id) = (self.string_id(path), self.string_id(build_id));
        self.mapping.push(ProfileMapping {
            id,
            start,
            limit,
            offset,
            filename,
            build_id,
            has_functions: true,
        });
        self.mappings.insert((pid, start), id);
        id
    }
}
