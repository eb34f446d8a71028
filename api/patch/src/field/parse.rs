//! Reading a path, in whichever spelling.

use serde_json::{Number, Value};

use super::{
    FieldPathError, Step,
    filter::{Filter, Literal, Operator},
};
use crate::MAX_DEPTH;

/// The steps of a path.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, FieldPathError> {
    let mut reader = Reader {
        text,
        letters: text.chars().collect(),
        at: 0,
    };
    let steps = if text.starts_with('/') {
        reader.pointer()?
    } else {
        reader.path()?
    };
    if steps.len() > MAX_DEPTH {
        return Err(reader.wrong(format!(
            "the path has more than {MAX_DEPTH} steps; no object nests so deep"
        )));
    }
    Ok(steps)
}

/// Goes through the letters of a path.
struct Reader<'a> {
    text: &'a str,
    letters: Vec<char>,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    /// Takes the next letter if it is this one.
    fn take(&mut self, letter: char) -> bool {
        let here = self.peek() == Some(letter);
        self.at += usize::from(here);
        here
    }

    /// Takes a word if it comes next.
    fn take_word(&mut self, word: &str) -> bool {
        let here = self.letters.get(self.at..).is_some_and(|rest| {
            word.chars().zip(rest).filter(|(a, b)| a == *b).count() == word.chars().count()
        });
        self.at += if here { word.chars().count() } else { 0 };
        here
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(letter) = self.peek().filter(|letter| fits(*letter)) {
            taken.push(letter);
            self.at += 1;
        }
        taken
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn wrong(&self, expected: impl Into<String>) -> FieldPathError {
        FieldPathError {
            path: self.text.to_owned(),
            position: self.at + 1,
            expected: expected.into(),
        }
    }

    fn expect(&mut self, letter: char, why: &str) -> Result<(), FieldPathError> {
        if self.take(letter) {
            return Ok(());
        }
        Err(self.wrong(format!("`{letter}` is expected{why}")))
    }

    /// A JSON pointer; the tokens that are numbers may turn out to be elements of lists.
    fn pointer(&mut self) -> Result<Vec<Step>, FieldPathError> {
        let mut steps = Vec::new();
        while self.take('/') {
            let mut token = String::new();
            while let Some(letter) = self.peek().filter(|letter| *letter != '/') {
                self.at += 1;
                token.push(match letter {
                    '~' if self.take('0') => '~',
                    '~' if self.take('1') => '/',
                    '~' => return Err(self.wrong("0 or 1 is expected after `~`; ~0 stands for ~, ~1 for /")),
                    other => other,
                });
            }
            if token.is_empty() {
                return Err(self.wrong("a field name is expected after `/`"));
            }
            if token == "-" {
                return Err(self.wrong("the number of an element is expected; `-` names none that exists"));
            }
            steps.push(Step::Field(token));
        }
        Ok(steps)
    }

    /// JSONPath or a dotted path.
    fn path(&mut self) -> Result<Vec<Step>, FieldPathError> {
        self.skip_blanks();
        let braced = self.take('{');
        self.skip_blanks();
        let rooted = self.take('$');
        let mut steps = Vec::new();
        let begin = self.at;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => break,
                Some('}') if braced => break,
                Some('.') => {
                    self.at += 1;
                    if self.take('.') {
                        self.at -= 1;
                        return Err(self.wrong(
                            "a field name is expected; recursive descent (`..`) is not supported, name every field \
                             on the way",
                        ));
                    }
                    match self.peek() {
                        Some('[') => steps.push(self.bracket()?),
                        // `.` and `{.}` are the whole object.
                        None | Some('}') if steps.is_empty() && begin + 1 == self.at => {}
                        _ => steps.push(self.name()?),
                    }
                }
                Some('[') => steps.push(self.bracket()?),
                _ if self.at == begin && !rooted => {
                    if self.take('*') {
                        // Alone it is the whole object, not its fields one by one.
                        self.skip_blanks();
                        if self.peek().is_none_or(|letter| letter == '}') {
                            continue;
                        }
                        steps.push(Step::Every);
                    } else {
                        steps.push(self.name()?);
                    }
                }
                Some(_) => return Err(self.wrong("`.` or `[` is expected before the next field")),
            }
        }
        if !rooted && self.at == begin {
            return Err(self.wrong("a field name is expected; `*` is the whole object"));
        }
        if braced {
            self.expect('}', " at the end")?;
            self.skip_blanks();
            if self.peek().is_some() {
                return Err(self.wrong("the end is expected; a path has one pair of braces"));
            }
        }
        Ok(steps)
    }

    /// A field name outside brackets. A backslash takes the next letter literally, as kubectl has it.
    fn name(&mut self) -> Result<Step, FieldPathError> {
        if self.take('*') {
            return Ok(Step::Every);
        }
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '.' | '[' | '}' => break,
                '\\' => {
                    self.at += 1;
                    let Some(literal) = self.peek() else {
                        return Err(self.wrong("a letter is expected after the backslash"));
                    };
                    name.push(literal);
                }
                ']' | '{' | '(' | ')' | '\'' | '"' | ',' | '*' | '?' | '@' => {
                    return Err(self.wrong(format!(
                        "`{letter}` is no part of a field name; write unusual names in brackets and quotes: ['name']"
                    )));
                }
                blank if blank.is_whitespace() => break,
                other => name.push(other),
            }
            self.at += 1;
        }
        if name.is_empty() {
            return Err(self.wrong("a field name is expected; `*` is every field"));
        }
        Ok(Step::Field(name))
    }

    /// What is in brackets.
    fn bracket(&mut self) -> Result<Step, FieldPathError> {
        self.expect('[', "")?;
        self.skip_blanks();
        let step = match self.peek() {
            Some('*') => {
                self.at += 1;
                Step::Every
            }
            Some('?') => {
                self.at += 1;
                Step::Where(self.filter()?)
            }
            Some(quote @ ('\'' | '"')) => Step::Field(self.quoted(quote)?),
            _ => self.bare()?,
        };
        self.skip_blanks();
        if self.peek() == Some(',') {
            return Err(self.wrong("`]` is expected; a path per field, unions are not supported"));
        }
        self.expect(']', "")?;
        Ok(step)
    }

    /// What is in brackets without quotes: a number, `name=main`, or a field name.
    fn bare(&mut self) -> Result<Step, FieldPathError> {
        let start = self.at;
        let taken = self.take_while(|letter| !matches!(letter, ']' | '[' | ','));
        let end = std::mem::replace(&mut self.at, start);
        let step = self.bare_step(taken.trim())?;
        self.at = end;
        Ok(step)
    }

    fn bare_step(&self, bare: &str) -> Result<Step, FieldPathError> {
        if bare.is_empty() {
            return Err(self.wrong(
                "a number, a field name, `*` or a filter `?(@.name==\"main\")` is expected in the brackets",
            ));
        }
        if let Ok(index) = bare.parse::<i64>() {
            return Ok(Step::Index(index));
        }
        if bare
            .chars()
            .all(|letter| letter.is_ascii_digit() || matches!(letter, ':' | '-'))
        {
            return Err(self.wrong("one number or `*` is expected; slices are not supported"));
        }
        let Some((left, right)) = bare.split_once('=') else {
            return Ok(Step::Field(bare.to_owned()));
        };
        let right = right.strip_prefix('=').unwrap_or(right).trim();
        let left: Vec<String> = left.trim().split('.').map(str::to_owned).collect();
        if right.is_empty() || left.iter().any(String::is_empty) {
            return Err(self.wrong("a field, `=` and a value are expected, as in [name=main]"));
        }
        let right = right.trim_matches(['\'', '"']).to_owned();
        Ok(Step::Where(Filter {
            left,
            test: Some((Operator::Equal, Literal::Word(right))),
        }))
    }

    /// A quoted text; a backslash takes the next letter literally.
    fn quoted(&mut self, quote: char) -> Result<String, FieldPathError> {
        self.expect(quote, "")?;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(self.wrong(format!("the closing {quote} is expected"))),
                Some('\\') => {
                    self.at += 1;
                    text.extend(self.peek());
                }
                Some(letter) if letter == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(letter) => text.push(letter),
            }
            self.at += 1;
        }
    }

    /// What follows `?`: `(@.name=="main")`.
    fn filter(&mut self) -> Result<Filter, FieldPathError> {
        self.expect('(', " after `?`")?;
        self.skip_blanks();
        self.expect('@', ", the element that is looked at")?;
        let mut left = Vec::new();
        loop {
            match self.peek() {
                Some('.') => {
                    self.at += 1;
                    let name = self.take_while(|letter| {
                        !matches!(letter, '.' | '[' | ')' | '=' | '!' | '<' | '>') && !letter.is_whitespace()
                    });
                    if name.is_empty() {
                        return Err(self.wrong("a field name is expected after `@.`"));
                    }
                    left.push(name);
                }
                Some('[') => {
                    self.at += 1;
                    let Some(quote @ ('\'' | '"')) = self.peek() else {
                        return Err(
                            self.wrong("a quoted field name is expected; a filter looks at one field")
                        );
                    };
                    left.push(self.quoted(quote)?);
                    self.expect(']', "")?;
                }
                _ => break,
            }
        }
        self.skip_blanks();
        if self.take(')') {
            return Ok(Filter { left, test: None });
        }
        let operator = self.operator()?;
        self.skip_blanks();
        let literal = Literal::Value(self.literal()?);
        self.skip_blanks();
        self.expect(')', "; a filter has one comparison")?;
        Ok(Filter {
            left,
            test: Some((operator, literal)),
        })
    }

    fn operator(&mut self) -> Result<Operator, FieldPathError> {
        // The longer ones first.
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let found = operators.into_iter().find(|(word, _)| self.take_word(word));
        found
            .map(|(_, operator)| operator)
            .ok_or_else(|| self.wrong("`)` or one of ==, !=, <, <=, >, >= is expected"))
    }

    fn literal(&mut self) -> Result<Value, FieldPathError> {
        if let Some(quote @ ('\'' | '"')) = self.peek() {
            return self.quoted(quote).map(Value::String);
        }
        let start = self.at;
        let word = self.take_while(|letter| !letter.is_whitespace() && letter != ')');
        match word.as_str() {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "null" => return Ok(Value::Null),
            _ => {}
        }
        word.parse::<Number>().map(Value::Number).map_err(|_| {
            self.at = start;
            self.wrong("a quoted text, a number, true, false or null is expected")
        })
    }
}
