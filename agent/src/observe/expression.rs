//! CEL expressions about live objects, compiled once and evaluated within a budget.
//!
//! Expressions are written by whoever writes bundles, and the interpreter has no limits of its own. So an expression is
//! refused when it is compiled if it is too long or nests too deeply, and what it touches is [metered](metering) when it
//! is evaluated. One that costs too much fails alone; it never holds up a pass or fills the memory.

mod allowance;
mod convert;
mod metering;

pub(crate) use allowance::Allowance;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, Value as CelValue};
use metering::{Meter, Metered};
use roundhouse_api::names::annotation;
use serde_json::Value;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Longest expression, in bytes.
const MAX_TEXT: usize = 2048;
/// Deepest nesting of an expression, as the parser counts it, and of its brackets.
const MAX_NESTING: u16 = 24;
/// Parser and interpreter recurse, and take up to 100 KiB a level in a build without optimisation.
const STACK: usize = 64 * 1024 * 1024;
/// The largest object that expressions are evaluated on, in bytes of memory by rough count.
const MAX_OBJECT: u64 = 512 * 1024;
/// What one evaluation may touch, in bytes.
const BUDGET: u64 = 8 * 1024 * 1024;
/// The annotation of `kubectl apply`: a copy of the object inside the object.
const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why an expression can never be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("the expression has {0} bytes, more than the limit of {MAX_TEXT}")]
    TooLong(usize),
    #[error("{0}")]
    Syntax(String),
    #[error("undeclared reference to {name:?}: {available} can be used")]
    Undeclared { name: String, available: String },
    #[error("{0} cannot be used here")]
    Unavailable(String),
    #[error(
        "the expression nests too deeply, or has more than {} loops or {} inside one another",
        metering::MAX_LOOPS,
        metering::MAX_LOOP_DEPTH
    )]
    TooDeep,
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the expression costs more than allowed: it is stopped after touching {} MiB", BUDGET / 1024 / 1024)]
    Budget,
    #[error(
        "the expressions of this bundle cost more than allowed in one pass: after touching {} MiB the rest waits for a \
         later one", allowance::PASS / 1024 / 1024
    )]
    Postponed,
    #[error("the object is too large for expressions: {0} bytes, the limit is {MAX_OBJECT}")]
    TooLarge(u64),
    #[error("{0}")]
    Evaluation(String),
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    expression: IdedExpr,
    loops: Metered,
}

impl Expression {
    /// Compiles an expression over `variables`.
    pub(crate) fn compile(text: &str, variables: &[&str]) -> Result<Self, Invalid> {
        if text.len() > MAX_TEXT {
            return Err(Invalid::TooLong(text.len()));
        }
        if bracket_depth(text) > usize::from(MAX_NESTING) {
            return Err(Invalid::TooDeep);
        }
        // The parser panics where its own count of the depth goes wrong.
        let parser = Parser::new().max_recursion_depth(MAX_NESTING);
        let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text))).map_err(|_| Invalid::TooDeep)?;
        let mut expression = parsed.map_err(|errors| Invalid::Syntax(first_line(&errors.to_string())))?;
        let loops = metering::meter(&mut expression, variables)?;
        Ok(Expression { expression, loops })
    }
}

/// Why nothing was compiled or evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unworked {
    #[error("the system has no thread to evaluate it in: it is tried again")]
    NoThread,
    #[error("the evaluation broke, which is a defect of the agent: its log says where")]
    Broke,
}

/// Compiles or evaluates with enough stack for the deepest expression. The caller waits, but what else its runtime has to
/// do goes on meanwhile, as far as that has more than one thread.
///
/// # Errors
/// [`Unworked::NoThread`] when the system has no thread to give, which passes.
pub(crate) fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Unworked> {
    let wait = || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .stack_size(stack_size())
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

#[cfg(not(test))]
fn stack_size() -> usize {
    STACK
}

#[cfg(test)]
use starved::stack_size;

/// Tests of a system that has no thread to give.
#[cfg(test)]
pub(super) mod starved {
    use std::cell::Cell;

    thread_local! {
        static STARVED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `work` while this thread can start no others.
    pub(in crate::observe) fn starved<T>(work: impl FnOnce() -> T) -> T {
        STARVED.set(true);
        let done = work();
        STARVED.set(false);
        done
    }

    /// A stack as large as all of the address space is refused by every system.
    pub(super) fn stack_size() -> usize {
        if STARVED.get() { 1 << 47 } else { super::STACK }
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

/// A live object as expressions see it; converted once for all of them.
pub(crate) struct Subject<'a> {
    object: CelValue,
    weight: u64,
    allowance: &'a Allowance,
    postponed: Cell<bool>,
}

impl<'a> Subject<'a> {
    /// What expressions see: everything but `managedFields`, copies of the object in its annotations, and what a Secret
    /// keeps. Evaluations are paid for from `allowance`.
    pub(crate) fn new(live: &Value, allowance: &'a Allowance) -> Self {
        let object = convert::to_cel(live, &hidden);
        let weight = convert::weight(&object);
        Subject {
            object,
            weight,
            allowance,
            postponed: Cell::new(false),
        }
    }

    /// Whether an evaluation was left to a later pass.
    pub(crate) fn is_postponed(&self) -> bool {
        self.postponed.get()
    }

    /// Evaluates; `result` is a variable of that name.
    pub(crate) fn evaluate(
        &self,
        expression: &Expression,
        result: Option<bool>,
    ) -> Result<CelValue, Failure> {
        if self.weight > MAX_OBJECT {
            return Err(Failure::TooLarge(self.weight));
        }
        let given = self.allowance.give(BUDGET);
        if given == 0 {
            self.postponed.set(true);
            return Err(Failure::Postponed);
        }
        let meter = Arc::new(Meter::new(given, self.weight, expression.loops.count()));
        let mut context = Context::default().with_all();
        expression.loops.install(&mut context, &meter);
        context.add_function("hasConditions", |status: CelValue| {
            convert::has_conditions(&status)
        });
        context.add_variable_from_value("object", self.object.clone());
        if let Some(result) = result {
            context.add_variable_from_value("result", result);
        }
        // The interpreter panics where it is unfinished; that is the expression's failure, not ours.
        let evaluate = || CelValue::resolve(&expression.expression, &context);
        let outcome = catch_unwind(AssertUnwindSafe(evaluate));
        self.allowance.spend(meter.spent(given));
        if meter.is_spent() {
            self.postponed.set(self.is_postponed() || given < BUDGET);
            return Err(if given < BUDGET {
                Failure::Postponed
            } else {
                Failure::Budget
            });
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::Evaluation(first_line(&error.to_string()))),
            Err(_) => Err(Failure::Evaluation(
                "the interpreter cannot evaluate this".to_owned(),
            )),
        }
    }

    /// Evaluates to true or false.
    pub(crate) fn holds(&self, expression: &Expression) -> Result<bool, Failure> {
        match self.evaluate(expression, None)? {
            CelValue::Bool(holds) => Ok(holds),
            other => Err(Failure::Evaluation(format!(
                "expected a bool, got a {}",
                other.type_of()
            ))),
        }
    }

    /// Evaluates to a text.
    pub(crate) fn text(&self, expression: &Expression, result: bool) -> Result<String, Failure> {
        match self.evaluate(expression, Some(result))? {
            CelValue::String(text) => Ok(text.to_string()),
            other => Err(Failure::Evaluation(format!(
                "expected a string, got a {}",
                other.type_of()
            ))),
        }
    }

    /// Evaluates to JSON.
    pub(crate) fn json(&self, expression: &Expression) -> Result<Value, Failure> {
        convert::to_json(&self.evaluate(expression, None)?)
            .ok_or_else(|| Failure::Evaluation("the result is no JSON".to_owned()))
    }
}

/// What expressions do not see, by path. Whoever writes bundles need not be allowed to read Secrets of the member.
pub(super) fn hidden(kind: Option<&str>, path: &[&str]) -> bool {
    match path {
        ["data" | "stringData"] => kind == Some("Secret"),
        ["metadata", "managedFields"] => true,
        ["metadata", "annotations", key] => matches!(*key, annotation::LAST_APPLIED | KUBECTL_LAST_APPLIED),
        _ => false,
    }
}

/// Messages of the parser show the expression again, line by line; errors of the interpreter may show values at length.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("ERROR: <input>:")
        .chars()
        .take(256)
        .collect()
}

#[cfg(test)]
mod tests;
