//! The tables of a profile: strings, functions, mappings and locations, each once.

use std::collections::HashMap;
use std::path::Path;

use quell_event::trace::{Frame, Process};

use super::proto::{Function, Line, Location, Mapping, Profile};

/// Where the kernel lies on x86-64: the upper half.
const KERNEL_START: u64 = 0xffff_8000_0000_0000;
/// What perf and pprof call the kernel's mapping.
const KERNEL: &str = "[kernel.kallsyms]";
/// The function of samples without a stack.
const NOWHERE: &str = "[no stack]";

/// What tells locations apart: the process (the kernel has none), the address, the function.
type Place = (Option<u32>, u64, u64);

/// The tables.
pub(super) struct Code<'a> {
    processes: &'a HashMap<u32, Process>,
    strings: HashMap<String, i64>,
    string_table: Vec<String>,
    /// By name and file.
    functions: HashMap<(i64, i64), u64>,
    function: Vec<Function>,
    /// By process and start.
    mappings: HashMap<(Option<u32>, u64), u64>,
    mapping: Vec<Mapping>,
    locations: HashMap<Place, u64>,
    location: Vec<Location>,
}

impl<'a> Code<'a> {
    pub(super) fn new(processes: &'a HashMap<u32, Process>) -> Self {
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
        code.string("");
        code
    }

    /// The number of a string, from 0.
    pub(super) fn string(&mut self, text: &str) -> i64 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.string_table.len() as i64;
        self.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    /// The number of a frame of a process, or of the kernel, from 1.
    pub(super) fn location(&mut self, pid: Option<u32>, frame: &Frame) -> u64 {
        let name = frame.symbol.clone().unwrap_or_else(|| frame.to_string());
        let function = self.function(&name, frame.module.as_deref().unwrap_or_default());
        let place = (pid, frame.addr, function);
        if let Some(id) = self.locations.get(&place) {
            return *id;
        }
        let mapping = self.mapping(pid, frame.addr);
        self.add(place, mapping)
    }

    /// The location of samples without a stack.
    pub(super) fn nowhere(&mut self) -> u64 {
        let function = self.function(NOWHERE, "");
        let place = (None, 0, function);
        match self.locations.get(&place) {
            Some(id) => *id,
            None => self.add(place, 0),
        }
    }

    /// Hands the tables over.
    pub(super) fn into_profile(self, profile: &mut Profile) {
        profile.string_table = self.string_table;
        profile.function = self.function;
        profile.mapping = self.mapping;
        profile.location = self.location;
    }

    fn add(&mut self, place: Place, mapping_id: u64) -> u64 {
        let (_, address, function_id) = place;
        let id = self.location.len() as u64 + 1;
        self.location.push(Location {
            id,
            mapping_id,
            address,
            line: vec![Line { function_id }],
        });
        self.locations.insert(place, id);
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string(name), self.string(file));
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
    fn mapping(&mut self, pid: Option<u32>, address: u64) -> u64 {
        let Some(number) = pid else {
            return self.map(None, KERNEL_START, u64::MAX, 0, KERNEL, "");
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
        self.map(pid, start, end, module.offset, &module.path, build_id)
    }

    fn map(
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
        let (filename, build_id) = (self.string(path), self.string(build_id));
        self.mapping.push(Mapping {
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
