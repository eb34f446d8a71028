//! CEL expressions about JSON, compiled once and evaluated within a budget.
//!
//! Expressions are written by users, and the interpreter has no limits of its own. So an expression is refused when it is
//! compiled if it is too long or nests too deeply, and what it touches is metered when it is evaluated. One that costs too
//! much fails alone; it never holds up others or fills the memory.

mod allowance;
mod compiled;
mod convert;
mod metering;

pub use allowance::Allowance;
pub use compiled::Compiled;
pub use convert::number;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, Value as CelValue};
use metering::{Meter, Metered, Terms};
use serde_json::Value;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Longest expression, in bytes.
const MAX_TEXT: usize = 2048;
/// Longest rule of a definition, in bytes.
const MAX_RULE: usize = 2 * MAX_TEXT;
/// Deepest nesting of an expression, as the parser counts it, and of its brackets.
const MAX_NESTING: u16 = 24;
/// Parser and interpreter recurse, and take up to 100 KiB a level in a build without optimisation. No more memory is taken than
/// is used.
const STACK: usize = 128 * 1024 * 1024;
/// What expressions are evaluated on is at most this large, in bytes of memory by rough count.
const MAX_OBJECT: u64 = 512 * 1024;
/// What one evaluation may touch, in bytes.
const BUDGET: u64 = 8 * 1024 * 1024;

/// Why an expression can never be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is too long.
    #[error("the expression has {bytes} bytes, more than the limit of {limit}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// It does not parse.
    #[error("{line}:{column}: {reason}")]
    Syntax {
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What the parser says.
        reason: String,
    },
    /// It names something that is not there.
    #[error("undeclared reference to {name:?}: {available} can be used")]
    Undeclared {
        /// What it names.
        name: String,
        /// What there is.
        available: String,
    },
    /// It uses a function or a form that is not offered.
    #[error("{0} cannot be used here")]
    Unavailable(String),
    /// It is too deep.
    #[error(
        "the expression nests too deeply, or has more than {} loops ({} in a rule of a definition) or {} inside one another",
        metering::MAX_LOOPS,
        metering::MAX_RULE_LOOPS,
        metering::MAX_LOOP_DEPTH
    )]
    TooDeep,
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It costs too much by itself.
    #[error("the expression costs more than allowed: it is stopped after touching {} MiB", BUDGET / 1024 / 1024)]
    Budget,
    /// What all expressions together may touch is used up.
    #[error(
        "all expressions together cost more than allowed in one pass: after touching {} MiB the rest waits for a later one",
        allowance::PASS / 1024 / 1024
    )]
    Postponed,
    /// What it is about is too large.
    #[error("the object is too large for expressions: {0} bytes, the limit is {MAX_OBJECT}")]
    TooLarge(u64),
    /// The interpreter says no.
    #[error("{0}")]
    Evaluation(String),
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    expression: IdedExpr,
    metered: Metered,
}

impl Expression {
    /// Compiles an expression over `variables`; needs the stack of [`with_stack`].
    ///
    /// # Errors
    /// [`Invalid`] says why it can never be evaluated.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, Invalid> {
        let mut expression = parse(text, MAX_TEXT)?;
        let terms = Terms {
            variables,
            is_open: false,
            loops: metering::MAX_LOOPS,
        };
        let metered = metering::meter(&mut expression, terms)?;
        Ok(Expression { expression, metered })
    }

    /// Compiles a rule of a definition, over `self` and `oldSelf`; needs the stack of [`with_stack`]. What else it names comes
    /// to light when it is evaluated.
    ///
    /// # Errors
    /// [`Invalid`] says why it can never be evaluated.
    pub fn of_rule(text: &str) -> Result<Self, Invalid> {
        let mut expression = parse(text, MAX_RULE)?;
        let terms = Terms {
            variables: &["self", "oldSelf"],
            is_open: true,
            loops: metering::MAX_RULE_LOOPS,
        };
        let metered = metering::meter(&mut expression, terms)?;
        Ok(Expression { expression, metered })
    }

    /// How deep it nests.
    pub fn depth(&self) -> usize {
        self.metered.depth
    }

    /// Whether it has loops, or functions whose work is more than what they are given: without them nothing about an expression
    /// costs more than its text and its values are large.
    pub fn is_costly(&self) -> bool {
        self.metered.is_costly
    }

    /// Evaluates over these variables, touching no more than what is left of `allowance`.
    ///
    /// # Errors
    /// [`Failure`] says why there is no result.
    pub fn evaluate(
        &self,
        variables: &[(&str, CelValue)],
        allowance: &Allowance,
    ) -> Result<CelValue, Failure> {
        let given = allowance.give(u64::MAX);
        if given == 0 {
            return Err(Failure::Budget);
        }
        let weight = variables.iter().map(|(_, value)| convert::weight(value)).sum();
        let meter = Arc::new(Meter::new(
            given,
            weight,
            metering::RULE_ROUND,
            self.metered.count(),
        ));
        let outcome = self.run(variables, &meter);
        allowance.spend(meter.spent(given));
        match meter.is_spent() {
            true => Err(Failure::Budget),
            false => outcome,
        }
    }

    fn run(&self, variables: &[(&str, CelValue)], meter: &Arc<Meter>) -> Result<CelValue, Failure> {
        let mut context = Context::default().with_all();
        self.metered.install(&mut context, meter);
        context.add_function("hasConditions", |status: CelValue| {
            convert::has_conditions(&status)
        });
        for (name, value) in variables {
            context.add_variable_from_value(*name, value.clone());
        }
        // The interpreter panics where it is unfinished; that is the expression's failure, not ours.
        let evaluate = || CelValue::resolve(&self.expression, &context);
        match catch_unwind(AssertUnwindSafe(evaluate)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::Evaluation(first_line(&error.to_string()))),
            Err(_) => Err(Failure::Evaluation(
                "the interpreter cannot evaluate this".to_owned(),
            )),
        }
    }
}

fn parse(text: &str, limit: usize) -> Result<IdedExpr, Invalid> {
    if text.len() > limit {
        let bytes = text.len();
        return Err(Invalid::TooLong { bytes, limit });
    }
    if bracket_depth(text) > usize::from(MAX_NESTING) {
        return Err(Invalid::TooDeep);
    }
    // The parser panics where its own count of the depth goes wrong.
    let parser = Parser::new().max_recursion_depth(MAX_NESTING);
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text))).map_err(|_| Invalid::TooDeep)?;
    parsed.map_err(|errors| syntax(&errors.to_string()))
}

/// Why nothing was compiled or evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unworked {
    /// That passes.
    #[error("the system has no thread to evaluate it in: it is tried again")]
    NoThread,
    /// The work panicked.
    #[error("the evaluation broke, which is a defect of this program: its log says where")]
    Broke,
}

/// Compiles or evaluates with enough stack for the deepest expression. The caller waits, but what else its runtime has to
/// do goes on meanwhile, as far as that has more than one thread.
///
/// # Errors
/// [`Unworked::NoThread`] when the system has no thread to give, which passes.
pub fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Unworked> {
    with_stack_of(STACK, work)
}

/// [`with_stack`] with a stack of so many bytes.
///
/// # Errors
/// As [`with_stack`].
pub fn with_stack_of<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Result<T, Unworked> {
    let wait = || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .stack_size(bytes)
                .spawn_scoped(scope, work)
                .map_err(|_| Unworked::NoThread)?;
            thread.join().map_err(|_| Unworked::Broke)
        })
    };
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

/// How deep brackets nest; those in texts count too.
fn bracket_depth(text: &str) -> usize {
    let mut depth = 0_usize;
    let depths = text.chars().map(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth
    });
    depths.max().unwrap_or(0)
}

/// What expressions see, by variable; converted once for all of them.
pub struct Subject<'a> {
    variables: Vec<(&'a str, CelValue)>,
    weight: u64,
    allowance: &'a Allowance,
    postponed: Cell<bool>,
}

impl<'a> Subject<'a> {
    /// The variable `object`, without what `hidden` names by the object's kind and a path of at most three steps.
    /// Evaluations are paid for from `allowance`.
    pub fn new(
        live: &Value,
        hidden: &dyn Fn(Option<&str>, &[&str]) -> bool,
        allowance: &'a Allowance,
    ) -> Self {
        Self::of(vec![("object", convert::to_cel(live, hidden))], allowance)
    }

    /// These variables.
    pub fn over(variables: &[(&'a str, &Value)], allowance: &'a Allowance) -> Self {
        let all = |(name, value): &(&'a str, &Value)| (*name, convert::to_cel(value, &|_, _| false));
        Self::of(variables.iter().map(all).collect(), allowance)
    }

    fn of(variables: Vec<(&'a str, CelValue)>, allowance: &'a Allowance) -> Self {
        let weight = variables.iter().map(|(_, value)| convert::weight(value)).sum();
        Subject {
            variables,
            weight,
            allowance,
            postponed: Cell::new(false),
        }
    }

    /// Whether an evaluation was left to a later pass.
    pub fn is_postponed(&self) -> bool {
        self.postponed.get()
    }

    /// Evaluates; `result` is a variable of that name.
    fn evaluate(&self, expression: &Expression, result: Option<bool>) -> Result<CelValue, Failure> {
        if self.weight > MAX_OBJECT {
            return Err(Failure::TooLarge(self.weight));
        }
        let given = self.allowance.give(BUDGET);
        if given == 0 {
            self.postponed.set(true);
            return Err(Failure::Postponed);
        }
        let meter = Arc::new(Meter::new(
            given,
            self.weight,
            metering::ROUND,
            expression.metered.count(),
        ));
        let mut variables = self.variables.clone();
        variables.extend(result.map(|result| ("result", CelValue::Bool(result))));
        let outcome = expression.run(&variables, &meter);
        self.allowance.spend(meter.spent(given));
        if meter.is_spent() {
            self.postponed.set(self.is_postponed() || given < BUDGET);
            return Err(if given < BUDGET {
                Failure::Postponed
            } else {
                Failure::Budget
            });
        }
        outcome
    }

    /// Evaluates to true or false.
    ///
    /// # Errors
    /// [`Failure`] says why there is none.
    pub fn holds(&self, expression: &Expression) -> Result<bool, Failure> {
        match self.evaluate(expression, None)? {
            CelValue::Bool(holds) => Ok(holds),
            other => Err(Failure::Evaluation(format!(
                "expected a bool, got a {}",
                other.type_of()
            ))),
        }
    }

    /// Evaluates to a text; `result` is a variable of that name.
    ///
    /// # Errors
    /// [`Failure`] says why there is none.
    pub fn text(&self, expression: &Expression, result: bool) -> Result<String, Failure> {
        match self.evaluate(expression, Some(result))? {
            CelValue::String(text) => Ok(text.to_string()),
            other => Err(Failure::Evaluation(format!(
                "expected a string, got a {}",
                other.type_of()
            ))),
        }
    }

    /// Evaluates to JSON.
    ///
    /// # Errors
    /// [`Failure`] says why there is none.
    pub fn json(&self, expression: &Expression) -> Result<Value, Failure> {
        convert::to_json(&self.evaluate(expression, None)?)
            .ok_or_else(|| Failure::Evaluation("the result is no JSON".to_owned()))
    }
}

/// Messages of the parser show the expression again, line by line; errors of the interpreter may show values at length.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(256).collect()
}

/// `ERROR: <input>:1:8: Syntax error: …`, as the parser writes it.
fn syntax(text: &str) -> Invalid {
    let text = first_line(text);
    let rest = text.trim_start_matches("ERROR: <input>:");
    let mut parts = rest.splitn(3, ':');
    let mut number = || parts.next().and_then(|part| part.trim().parse().ok());
    match (number(), number()) {
        (Some(line), Some(column)) => Invalid::Syntax {
            line,
            column,
            reason: parts.next().unwrap_or_default().trim().to_owned(),
        },
        _ => Invalid::Syntax {
            line: 1,
            column: 1,
            reason: rest.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
