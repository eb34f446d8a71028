//! From parts to a tree.

use super::{
    Place,
    expression::{self, Command, Operand, Pipeline},
    lex::{self, Part},
};
use anyhow::{Result, bail, ensure};

/// A node of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// What is printed as it is.
    Text(String),
    /// A value that is printed.
    Print(Pipeline),
    /// `if`, `with` or `range`, and what is printed otherwise.
    Block(Block, Pipeline, Vec<Node>, Vec<Node>),
}

/// The kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    If,
    With,
    Range,
}

/// A parsed file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct File {
    pub(super) nodes: Vec<Node>,
    pub(super) definitions: Vec<(String, Vec<Node>)>,
    /// Every path that is read, from whatever dot.
    pub(super) fields: Vec<String>,
}

/// What is open: a block with what stands before its `else`, or a definition.
enum Open {
    Block(Block, Pipeline, Option<Vec<Node>>),
    Definition(String),
}

/// Parses a file.
///
/// # Errors
/// What is not of the subset, with its place.
pub(super) fn parse(file: &str, text: &str) -> Result<File> {
    let mut out = File::default();
    let mut open: Vec<(Place, Open, Vec<Node>)> = Vec::new();
    let mut nodes = Vec::new();
    for part in lex::parts(file, text)? {
        let (place, content) = match part {
            Part::Text(text) => {
                nodes.push(Node::Text(text));
                continue;
            }
            Part::Action(place, content) => (place, content),
        };
        let (word, rest) = content
            .split_once(char::is_whitespace)
            .unwrap_or((content.as_str(), ""));
        let block = match word {
            "if" => Some(Block::If),
            "with" => Some(Block::With),
            "range" => Some(Block::Range),
            _ => None,
        };
        match (word, block) {
            (_, Some(block)) => {
                let pipeline = expression::pipeline(&place, rest)?;
                note(&mut out.fields, &pipeline);
                let before = std::mem::take(&mut nodes);
                open.push((place, Open::Block(block, pipeline, None), before));
            }
            ("define", _) => {
                ensure!(open.is_empty(), "{place}: define stands outside of blocks");
                let name = expression::name(&place, rest)?;
                let before = std::mem::take(&mut nodes);
                open.push((place, Open::Definition(name), before));
            }
            ("else", _) => {
                ensure!(
                    rest.trim().is_empty(),
                    "{place}: else takes nothing; nest a block in it"
                );
                match open.last_mut() {
                    Some((_, Open::Block(_, _, body @ None), _)) => *body = Some(std::mem::take(&mut nodes)),
                    _ => bail!("{place}: else belongs to no if, with or range"),
                }
            }
            ("end", _) => match open.pop() {
                Some((_, Open::Block(block, pipeline, body), before)) => {
                    let last = std::mem::replace(&mut nodes, before);
                    let (body, otherwise) = match body {
                        Some(body) => (body, last),
                        None => (last, Vec::new()),
                    };
                    nodes.push(Node::Block(block, pipeline, body, otherwise));
                }
                Some((_, Open::Definition(name), before)) => {
                    let body = std::mem::replace(&mut nodes, before);
                    out.definitions.push((name, body));
                }
                None => bail!("{place}: end ends nothing"),
            },
            _ => {
                let pipeline = expression::pipeline(&place, &content)?;
                note(&mut out.fields, &pipeline);
                nodes.push(Node::Print(pipeline));
            }
        }
    }
    if let Some((place, _, _)) = open.last() {
        bail!("{place}: what begins here does not end");
    }
    out.nodes = nodes;
    Ok(out)
}

fn note(fields: &mut Vec<String>, pipeline: &Pipeline) {
    let mut operand = |operand: &Operand| match operand {
        Operand::Field(path) => fields.push(path.join(".")),
        Operand::Literal(_) => {}
        Operand::Nested(pipeline) => note(fields, pipeline),
    };
    for command in &pipeline.commands {
        match command {
            Command::Value(value) => operand(value),
            Command::Call(_, arguments) => arguments.iter().for_each(&mut operand),
        }
    }
}
