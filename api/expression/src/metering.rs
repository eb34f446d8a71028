//! Metering: a compiled expression is rewritten so that its loops, and the functions whose result can be much larger
//! than what they are given, report what they touch. When the budget is spent the next report is an error, which ends
//! the evaluation.
//!
//! The interpreter copies what it looks at: a loop that mentions `object` costs the whole object in each round. So a
//! round costs the weight of its result, of the object per mention, and of the range of each outer loop per mention of
//! its variable. Outside of loops the length of the text is limit enough.

use super::Invalid;
use super::convert::weight;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Loops of one expression.
pub(super) const MAX_LOOPS: usize = 8;
/// Loops of one rule of a definition.
pub(super) const MAX_RULE_LOOPS: usize = 32;
/// Loops inside one another.
pub(super) const MAX_LOOP_DEPTH: usize = 3;
/// Deepest nesting of the compiled expression.
const MAX_DEPTH: usize = 64;
/// What a round costs at least, in bytes.
pub(super) const ROUND: u64 = 64;
/// What a round of a rule costs at least: rules have more to spend, but no more time.
pub(super) const RULE_ROUND: u64 = 1024;
/// What compiling a regular expression costs, in bytes.
const REGEX: u64 = 64 * 1024;
/// The most that is given to a function whose result can be much larger, in bytes.
const MAX_SMALL: u64 = 4096;

/// Functions whose result, or whose work, grows faster than what they are given.
const GROWING: [&str; 15] = [
    "replace",
    "join",
    "format",
    "distinct",
    "sort",
    "isSorted",
    "flatten",
    "quote",
    "encode",
    "contains",
    "equivalent",
    "intersects",
    "escapeKey",
    "split",
    "validate",
];
/// Functions that compile a regular expression.
const REGULAR: [&str; 3] = ["matches", "find", "findAll"];

/// What an expression may name, and how many loops it may have.
pub(super) struct Terms<'a> {
    /// What there is.
    pub(super) variables: &'a [&'a str],
    /// Whether other names are let pass: they come to light in the evaluation.
    pub(super) is_open: bool,
    /// The most loops.
    pub(super) loops: usize,
}

/// What there is to meter in an expression.
#[derive(Debug, Default)]
pub(super) struct Metered {
    /// The loops, outermost first.
    loops: Vec<Loop>,
    /// How deep it nests.
    pub(super) depth: usize,
    /// Whether there is anything to meter.
    pub(super) is_costly: bool,
}

/// What a round of a loop mentions.
#[derive(Debug, Default, Clone)]
struct Loop {
    own: u64,
    object: u64,
    outer: BTreeMap<usize, u64>,
}

/// Counts what an evaluation touches.
pub(super) struct Meter {
    left: AtomicU64,
    object: u64,
    round: u64,
    ranges: Vec<AtomicU64>,
}

impl Meter {
    pub(super) fn new(budget: u64, object: u64, round: u64, loops: usize) -> Self {
        Meter {
            left: AtomicU64::new(budget),
            object,
            round,
            ranges: (0..loops).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// What was touched of `budget`.
    pub(super) fn spent(&self, budget: u64) -> u64 {
        budget.saturating_sub(self.left.load(Ordering::Relaxed))
    }

    fn spend(&self, cost: u64) -> Result<(), ExecutionError> {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(cost);
        self.left.store(left, Ordering::Relaxed);
        match left {
            0 => Err(ExecutionError::function_error("budget", "spent")),
            _ => Ok(()),
        }
    }

    fn range(&self, index: usize) -> u64 {
        self.ranges
            .get(index)
            .map_or(0, |range| range.load(Ordering::Relaxed))
    }
}

impl Metered {
    pub(super) fn count(&self) -> usize {
        self.loops.len()
    }

    /// Adds the functions that a metered expression calls. No expression can call them itself: `@` is in no name.
    pub(super) fn install(&self, context: &mut Context<'_>, meter: &Arc<Meter>) {
        for (index, mentions) in self.loops.iter().enumerate() {
            let (held, mentions) = (Arc::clone(meter), mentions.clone());
            context.add_function(
                &name(RANGE, index),
                move |range: Value| -> Result<Value, ExecutionError> {
                    let weight = weight(&range);
                    if let Some(range) = held.ranges.get(index) {
                        range.store(weight, Ordering::Relaxed);
                    }
                    held.spend(weight.saturating_mul(1 + mentions.own))?;
                    Ok(range)
                },
            );
            let (held, mentions) = (
                Arc::clone(meter),
                self.loops.get(index).cloned().unwrap_or_default(),
            );
            context.add_function(
                &name(ROUND_OF, index),
                move |value: Value| -> Result<Value, ExecutionError> {
                    let outer = mentions
                        .outer
                        .iter()
                        .map(|(index, n)| held.range(*index).saturating_mul(*n));
                    let mentioned =
                        outer.fold(held.object.saturating_mul(mentions.object), u64::saturating_add);
                    held.spend(mentioned.saturating_add(held.round + weight(&value)))?;
                    Ok(value)
                },
            );
        }
        let held = Arc::clone(meter);
        context.add_function(SMALL, move |value: Value| -> Result<Value, ExecutionError> {
            let weight = weight(&value);
            held.spend(weight.saturating_add(ROUND))?;
            if weight > MAX_SMALL {
                let message = format!("{weight} bytes are too many for it, {MAX_SMALL} are allowed");
                return Err(ExecutionError::function_error("call", message));
            }
            Ok(value)
        });
        let held = Arc::clone(meter);
        context.add_function(PATTERN, move |value: Value| -> Result<Value, ExecutionError> {
            held.spend(REGEX)?;
            Ok(value)
        });
        context.add_function(TEMPLATE, |value: Value| -> Result<Value, ExecutionError> {
            match &value {
                Value::String(text) if has_wide_precision(text) => Err(ExecutionError::function_error(
                    "format",
                    "a precision has two digits at most",
                )),
                _ => Ok(value),
            }
        });
    }
}

const RANGE: &str = "@range";
const ROUND_OF: &str = "@round";
const SMALL: &str = "@small";
const PATTERN: &str = "@pattern";
const TEMPLATE: &str = "@template";

fn name(prefix: &str, index: usize) -> String {
    format!("{prefix}{index}")
}

/// Whether a format string asks for more than 99 digits after the point.
fn has_wide_precision(text: &str) -> bool {
    text.split("%.")
        .skip(1)
        .any(|rest| rest.chars().take_while(char::is_ascii_digit).count() > 2)
}

/// Rewrites an expression.
///
/// # Errors
/// It nests too deeply, or uses what is not there.
pub(super) fn meter(expression: &mut IdedExpr, terms: Terms<'_>) -> Result<Metered, Invalid> {
    let mut walk = Walk {
        terms,
        metered: Metered::default(),
        open: Vec::new(),
    };
    walk.visit(expression, 0)?;
    Ok(walk.metered)
}

struct Walk<'a> {
    terms: Terms<'a>,
    metered: Metered,
    /// The loops that are open here, outermost first: number, variable, accumulator.
    open: Vec<(usize, String, String)>,
}

impl Walk<'_> {
    fn visit(&mut self, node: &mut IdedExpr, depth: usize) -> Result<(), Invalid> {
        if depth > MAX_DEPTH {
            return Err(Invalid::TooDeep);
        }
        self.metered.depth = depth.max(self.metered.depth);
        let depth = depth + 1;
        match &mut node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.mention(name),
            Expr::Select(select) => self.visit(&mut select.operand, depth),
            Expr::List(list) => list
                .elements
                .iter_mut()
                .try_for_each(|item| self.visit(item, depth)),
            Expr::Map(map) => map
                .entries
                .iter_mut()
                .try_for_each(|entry| match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        self.visit(&mut entry.key, depth)?;
                        self.visit(&mut entry.value, depth)
                    }
                    EntryExpr::StructField(_) => Err(Invalid::Unavailable("a message".to_owned())),
                }),
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::Struct(message) => Err(Invalid::Unavailable(format!("message {}", message.type_name))),
            Expr::Unspecified => Err(Invalid::Unavailable("an empty expression".to_owned())),
        }
    }

    fn mention(&mut self, name: &str) -> Result<(), Invalid> {
        let innermost = self.open.last().map(|(index, ..)| *index);
        let declared = self
            .open
            .iter()
            .rev()
            .find(|(_, variable, accumulator)| variable == name || accumulator == name);
        let declared = declared.map(|(index, variable, _)| (*index, variable == name));
        if declared.is_none() && !self.terms.variables.contains(&name) {
            if self.terms.is_open {
                return Ok(());
            }
            return Err(Invalid::Undeclared {
                name: name.to_owned(),
                available: self.terms.variables.join(", "),
            });
        }
        let Some(here) = innermost.and_then(|index| self.metered.loops.get_mut(index)) else {
            return Ok(());
        };
        match declared {
            None => here.object += 1,
            // The accumulator is weighed in each round.
            Some((_, false)) => {}
            Some((index, true)) if Some(index) == innermost => here.own += 1,
            Some((index, true)) => *here.outer.entry(index).or_default() += 1,
        }
        Ok(())
    }

    fn call(&mut self, call: &mut CallExpr, depth: usize) -> Result<(), Invalid> {
        // `math` in `math.abs(x)` is part of the function's name.
        let library = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(name)) if !self.is_variable(name) => Some(name.clone()),
            _ => None,
        };
        if library.as_deref() == Some("lists") && call.func_name == "range" {
            return Err(Invalid::Unavailable("lists.range".to_owned()));
        }
        if library.is_none()
            && let Some(target) = &mut call.target
        {
            self.visit(target, depth)?;
        }
        call.args
            .iter_mut()
            .try_for_each(|argument| self.visit(argument, depth))?;
        let receivers = call.target.as_deref_mut().filter(|_| library.is_none());
        let given = receivers.into_iter().chain(&mut call.args);
        self.metered.is_costly |= [&GROWING[..], &REGULAR]
            .concat()
            .contains(&call.func_name.as_str());
        if GROWING.contains(&call.func_name.as_str()) {
            for (place, argument) in given.enumerate() {
                if call.func_name == "format" && place == 0 {
                    wrap(argument, TEMPLATE);
                }
                wrap(argument, SMALL);
            }
        } else if REGULAR.contains(&call.func_name.as_str())
            && let Some(pattern) = given.last()
        {
            wrap(pattern, SMALL);
            wrap(pattern, PATTERN);
        }
        Ok(())
    }

    fn is_variable(&self, name: &str) -> bool {
        self.terms.variables.contains(&name) || self.open.iter().any(|(_, variable, _)| variable == name)
    }

    fn comprehension(&mut self, it: &mut ComprehensionExpr, depth: usize) -> Result<(), Invalid> {
        self.visit(&mut it.iter_range, depth)?;
        self.visit(&mut it.accu_init, depth)?;
        let index = self.metered.loops.len();
        if index >= self.terms.loops || self.open.len() >= MAX_LOOP_DEPTH {
            return Err(Invalid::TooDeep);
        }
        self.metered.loops.push(Loop::default());
        self.metered.is_costly = true;
        self.open.push((index, it.iter_var.clone(), it.accu_var.clone()));
        for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
            self.visit(part, depth)?;
        }
        self.open.pop();
        wrap(&mut it.iter_range, &name(RANGE, index));
        wrap(&mut it.loop_step, &name(ROUND_OF, index));
        Ok(())
    }
}

/// Puts a call of one of our functions around an expression.
fn wrap(node: &mut IdedExpr, function: &str) {
    let inner = std::mem::take(node);
    *node = IdedExpr {
        id: inner.id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: vec![inner],
        }),
    };
}
