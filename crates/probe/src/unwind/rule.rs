//! How one frame leads to the next: where the caller's frame begins, and where the registers lie that it needs.
//!
//! Followed are the instruction, the stack pointer and rbp. Compilers find frames by these on x86-64, and what a function
//! keeps of others does not matter for it. Anybody may have written the file: whatever is evaluated here ends after a
//! bounded number of steps.

use gimli::{
    CfaRule, EhFrame, Encoding, EndianSlice, Evaluation, EvaluationResult, LittleEndian, Location,
    RegisterRule, UnwindExpression, UnwindTableRow, Value, X86_64,
};

/// Operations of one expression: those of the linker's stubs have eight.
const MOST_OPERATIONS: u32 = 256;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Row = UnwindTableRow<usize>;

/// The registers that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
}

impl Registers {
    fn get(&self, register: gimli::Register) -> Option<u64> {
        match register {
            X86_64::RBP => Some(self.bp),
            X86_64::RSP => Some(self.sp),
            X86_64::RA => Some(self.ip),
            _ => None,
        }
    }
}

/// Where a frame leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To its caller's registers, of which `ip` is where it returns to.
    Caller(Registers),
    /// Nowhere: the thread began there.
    Start,
}

/// A rule that is worth keeping: most frames have one of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The caller's frame begins at rbp, or else at the stack pointer,
    by_bp: bool,
    /// and so far beyond.
    offset: i64,
    /// Where rbp was kept, from there; `None` where it was not touched.
    bp_at: Option<i64>,
}

/// Reads a word of the stack.
pub(super) type Stack<'a> = &'a dyn Fn(u64) -> Option<u64>;

impl Rule {
    /// The rule of a row, if it is of this form: the return address lies right below the caller's frame.
    pub(super) fn of(row: &Row) -> Option<Self> {
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

    /// By frame pointers: what code has that has no rule.
    pub(super) const FRAME_POINTER: Self = Self {
        by_bp: true,
        offset: 16,
        bp_at: Some(-16),
    };

    pub(super) fn apply(&self, regs: &Registers, stack: Stack<'_>) -> Option<Step> {
        let from = if self.by_bp { regs.bp } else { regs.sp };
        let sp = from.checked_add_signed(self.offset)?;
        let ip = stack(sp.checked_sub(8)?)?;
        let bp = match self.bp_at {
            Some(at) => stack(sp.checked_add_signed(at)?)?,
            None => regs.bp,
        };
        // a return address is never null: that is how some threads mark where they began
        Some(match ip {
            0 => Step::Start,
            ip => Step::Caller(Registers { ip, sp, bp }),
        })
    }
}

/// What a row of any form leads to.
pub(super) fn apply_row(
    row: &Row,
    section: &EhFrame<Reader<'_>>,
    encoding: Encoding,
    regs: &Registers,
    stack: Stack<'_>,
) -> Option<Step> {
    let evaluate = |expression: &UnwindExpression<usize>, first: Option<u64>| {
        evaluate(expression, section, encoding, first, regs, stack)
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
        RegisterRule::Undefined => return Some(Step::Start),
        rule => value(rule, regs.ip)?,
    };
    let bp = match row.register(X86_64::RBP) {
        // its caller's is not known, and most frames don't need it
        Some(RegisterRule::Undefined) => 0,
        Some(rule) => value(rule, regs.bp)?,
        None => regs.bp,
    };
    let sp = match row.register(X86_64::RSP) {
        Some(rule) => value(rule, regs.sp)?,
        None => cfa,
    };
    Some(match ip {
        0 => Step::Start,
        ip => Step::Caller(Registers { ip, sp, bp }),
    })
}

fn evaluate(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Reader<'_>>,
    encoding: Encoding,
    first: Option<u64>,
    regs: &Registers,
    stack: Stack<'_>,
) -> Option<u64> {
    let expression = expression.get(section).ok()?;
    let mut evaluation: Evaluation<Reader<'_>> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate().ok()?;
    // each round asks for what an operation needs, and those are counted
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
