//! From a tree and values to text.

use super::{
    Place,
    expression::{Command, Function, Operand, Pipeline},
    parse::{Block, Node},
};
use crate::charts::values;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// Definitions that include each other no deeper than this.
const MAX_DEPTH: usize = 20;
/// Numbers from here on Helm prints with an exponent, since values are floating-point numbers to it.
const MAX_PRINTED: i64 = 1_000_000;

type Definitions = BTreeMap<String, Vec<Node>>;

struct Evaluation<'a> {
    definitions: &'a Definitions,
    depth: usize,
}

/// The text of nodes with this dot.
///
/// # Errors
/// What cannot be rendered, with its place.
pub(super) fn text(definitions: &Definitions, nodes: &[Node], dot: &Value) -> Result<String> {
    let mut evaluation = Evaluation {
        definitions,
        depth: 0,
    };
    let mut out = String::new();
    evaluation.print(nodes, dot, &mut out)?;
    Ok(out)
}

impl Evaluation<'_> {
    fn print(&mut self, nodes: &[Node], dot: &Value, out: &mut String) -> Result<()> {
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Print(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    out.push_str(&printed(&pipeline.place, &value)?);
                }
                Node::Block(block, pipeline, body, otherwise) => {
                    let value = self.pipeline(pipeline, dot)?;
                    match (block, &value) {
                        _ if is_empty(&value) => self.print(otherwise, dot, out)?,
                        (Block::If, _) => self.print(body, dot, out)?,
                        (Block::With, _) => self.print(body, &value, out)?,
                        (Block::Range, Value::Array(items)) => {
                            for item in items {
                                self.print(body, item, out)?;
                            }
                        }
                        (Block::Range, _) => bail!("{}: range takes a list", pipeline.place),
                    }
                }
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value> {
        let place = &pipeline.place;
        let mut piped = None;
        for command in &pipeline.commands {
            piped = Some(match command {
                Command::Value(operand) => self.operand(place, operand, dot)?,
                Command::Call(function, arguments) => {
                    let mut values = Vec::new();
                    for argument in arguments {
                        values.push(self.operand(place, argument, dot)?);
                    }
                    values.extend(piped);
                    self.call(place, *function, values)?
                }
            });
        }
        piped.with_context(|| format!("{place}: nothing to evaluate"))
    }

    fn operand(&mut self, place: &Place, operand: &Operand, dot: &Value) -> Result<Value> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Nested(pipeline) => self.pipeline(pipeline, dot),
            Operand::Field(path) => {
                let mut at = dot;
                for key in path {
                    let Value::Object(fields) = at else {
                        bail!(
                            "{place}: .{}: there is nothing that could have {key}",
                            path.join(".")
                        );
                    };
                    at = fields.get(key).unwrap_or(&Value::Null);
                }
                Ok(at.clone())
            }
        }
    }

    fn call(&mut self, place: &Place, function: Function, arguments: Vec<Value>) -> Result<Value> {
        let text = match (function, arguments.as_slice()) {
            (Function::Default, [otherwise, value]) => {
                return Ok(if is_empty(value) { otherwise } else { value }.clone());
            }
            (Function::Include, [Value::String(name), dot]) => {
                let body = self.definitions.get(name);
                let body = body.with_context(|| format!("{place}: {name:?} is not defined"))?;
                ensure!(self.depth < MAX_DEPTH, "{place}: {name:?} includes itself");
                self.depth += 1;
                let mut out = String::new();
                self.print(body, dot, &mut out)?;
                self.depth -= 1;
                out
            }
            (Function::Nindent, [Value::Number(width), Value::String(text)]) => {
                let width = width.as_u64().and_then(|width| usize::try_from(width).ok());
                let margin = " ".repeat(width.with_context(|| format!("{place}: nindent takes a width"))?);
                format!("\n{margin}{}", text.replace('\n', &format!("\n{margin}")))
            }
            (Function::Quote, [value]) => Value::String(printed(place, value)?).to_string(),
            (Function::ToYaml, [value]) => values::to_yaml(value),
            _ => bail!(
                "{place}: {function:?} takes other arguments than {}",
                Value::Array(arguments)
            ),
        };
        Ok(Value::String(text))
    }
}

/// What is false to templates.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn printed(place: &Place, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(is) => Ok(is.to_string()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if whole.abs() < MAX_PRINTED => Ok(whole.to_string()),
            _ => bail!("{place}: Helm prints {number} with an exponent: pass it through toYaml"),
        },
        Value::Null => bail!("{place}: Helm prints <no value>: give it a default"),
        Value::Array(_) | Value::Object(_) => bail!("{place}: a list or a map is printed by toYaml"),
    }
}
