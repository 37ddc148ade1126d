//! How one frame leads to the next: where the caller's frame begins, and where the registers lie that it needs.
//!
//! Only the instruction, the stack pointer and rbp are followed. Compilers find frames by these on x86-64, and the other
//! registers that a function saves do not matter for that. Anybody may have written the file, so every evaluation ends after a
//! bounded number of steps.

use gimli::{
    CfaRule, EhFrame, Encoding, EndianSlice, Evaluation, EvaluationResult, LittleEndian, Location,
    RegisterRule, UnwindExpression, UnwindTableRow, Value, X86_64,
};

/// The most operations of one expression: those of the linker's stubs have eight.
const MAX_OPERATIONS: u32 = 256;

pub(super) type SectionReader<'a> = EndianSlice<'a, LittleEndian>;
type UnwindRow = UnwindTableRow<usize>;

/// The registers that are followed from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRegisters {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
}

impl FrameRegisters {
    fn get(&self, register: gimli::Register) -> Option<u64> {
        match register {
            X86_64::RBP => Some(self.bp),
            X86_64::RSP => Some(self.sp),
            X86_64::RA => Some(self.ip),
            _ => None,
        }
    }
}

/// The end of a frame: its caller, or the start of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameStep {
    /// To its caller's registers, of which `ip` is where it returns to.
    Caller(FrameRegisters),
    /// To no other: the thread began there.
    Start,
}

/// A rule of a simple form, which most frames have, so that it is worth keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRule {
    /// The caller's frame begins at an offset from rbp, or else from the stack pointer.
    by_bp: bool,
    /// That offset.
    offset: i64,
    /// Where the caller's rbp was saved, from the beginning of its frame; `None` where it was not touched.
    bp_at: Option<i64>,
}

/// Reads a word of the stack.
pub(super) type StackReader<'a> = &'a dyn Fn(u64) -> Option<u64>;

impl FrameRule {
    /// The rule of a row, if it is of this form: the return address lies right below the caller's frame.
    pub(super) fn from_row(row: &UnwindRow) -> Option<Self> {
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
            return None;
        };
        let by_bp = match register {
            X86_64::RBP => true,
            X86_64::RSP => false,
            _ => return None,
        };
        let bp_at = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue) => None,
            Some(RegisterRule::Offset(at)) => Some(at),
            Some(_) => return None,
        };
        let usual = matches!(row.register(X86_64::RA), Some(RegisterRule::Offset(-8)));
        (usual && row.register(X86_64::RSP).is_none()).then_some(Self {
            by_bp,
            offset,
            bp_at,
        })
    }

    /// The rule of frame pointers, for code that has no entry.
    pub(super) const FRAME_POINTER: Self = Self {
        by_bp: true,
        offset: 16,
        bp_at: Some(-16),
    };

    pub(super) fn apply_rule(
        &self,
        regs: &FrameRegisters,
        stack: StackReader<'_>,
    ) -> Option<FrameStep> {
        let from = if self.by_bp { regs.bp } else { regs.sp };
        let sp = from.checked_add_signed(self.offset)?;
        let ip = stack(sp.checked_sub(8)?)?;
        let bp = match self.bp_at {
            Some(at) => stack(sp.checked_add_signed(at)?)?,
            None => regs.bp,
        };
        // A return address is never null: some threads mark their beginning by null.
        Some(match ip {
            0 => FrameStep::Start,
            ip => FrameStep::Caller(FrameRegisters { ip, sp, bp }),
        })
    }
}

/// The frame that a row of any form leads to.
pub(super) fn apply_row(
    row: &UnwindRow,
    section: &EhFrame<SectionReader<'_>>,
    encoding: Encoding,
    regs: &FrameRegisters,
    stack: StackReader<'_>,
) -> Option<FrameStep> {
    let evaluate = |expression: &UnwindExpression<usize>, first: Option<u64>| {
        evaluate_expression(expression, section, encoding, first, regs, stack)
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            regs.get(*register)?.checked_add_signed(*offset)?
        }
        CfaRule::Expression(expression) => evaluate(expression, None)?,
    };
    let value = |rule: RegisterRule<usize>, same: u64| {
        Some(match rule {
            RegisterRule::SameValue => same,
            RegisterRule::Offset(at) => stack(cfa.checked_add_signed(at)?)?,
            RegisterRule::ValOffset(at) => cfa.checked_add_signed(at)?,
            RegisterRule::Register(register) => regs.get(register)?,
            RegisterRule::Expression(expression) => stack(evaluate(&expression, Some(cfa))?)?,
            RegisterRule::ValExpression(expression) => evaluate(&expression, Some(cfa))?,
            _ => return None,
        })
    };
    let ip = match row.register(X86_64::RA)? {
        RegisterRule::Undefined => return Some(FrameStep::Start),
        rule => value(rule, regs.ip)?,
    };
    let bp = match row.register(X86_64::RBP) {
        // The caller's rbp is not known, and most frames don't need it.
        Some(RegisterRule::Undefined) => 0,
        Some(rule) => value(rule, regs.bp)?,
        None => regs.bp,
    };
    let sp = match row.register(X86_64::RSP) {
        Some(rule) => value(rule, regs.sp)?,
        None => cfa,
    };
    Some(match ip {
        0 => FrameStep::Start,
        ip => FrameStep::Caller(FrameRegisters { ip, sp, bp }),
    })
}

fn evaluate_expression(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<SectionReader<'_>>,
    encoding: Encoding,
    first: Option<u64>,
    regs: &FrameRegisters,
    stack: StackReader<'_>,
) -> Option<u64> {
    let expression = expression.get(section).ok()?;
    let mut evaluation: Evaluation<SectionReader<'_>> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate().ok()?;
    // The evaluation stops for every value that an operation needs; it counts the operations, so this loop ends.
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = Value::Generic(regs.get(register)?);
                evaluation.resume_with_register(value).ok()?
            }
            EvaluationResult::RequiresMemory {
                address, size: 8, ..
            } => {
                let value = Value::Generic(stack(address)?);
                evaluation.resume_with_memory(value).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result().last()?.location {
        Location::Address { address } => Some(address),
        Location::Value {
            value: Value::Generic(value),
        } => Some(value),
        _ => None,
    }
}
