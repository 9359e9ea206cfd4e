//! Parses tokens to rules.

use crate::network::HostName;

use super::{
    CommandRules,
    error::RuleProblem,
    rule::{CommandRule, NetworkRule, RuleDecision, protocol_named},
    tokens::{RuleToken, tokens},
};

type Located<T> = Result<T, (usize, RuleProblem)>;

pub(super) fn parse(text: &str) -> Located<CommandRules> {
    let tokens = tokens(text)?;
    let mut parser = RuleParser { tokens: &tokens, line: 1 };
    let mut rules = CommandRules::default();
    while let Some(call) = parser.call()? {
        let line = call.line;
        let added = match call.function.as_str() {
            "prefix_rule" => prefix_rule(call).map(|rule| rules.commands.push(rule)),
            "network_rule" => network_rule(call).map(|rule| rules.networks.push(rule)),
            // Declares where programs are, which has no effect here: see `CommandRule::matches`.
            "host_executable" => Ok(()),
            _ => Err(RuleProblem::Function(call.function)),
        };
        added.map_err(|problem| (line, problem))?;
    }
    Ok(rules)
}

struct RuleCall {
    function: String,
    line: usize,
    arguments: Vec<(String, RuleValue)>,
}

impl RuleCall {
    fn take(&mut self, name: &str) -> Option<RuleValue> {
        let at = self.arguments.iter().position(|(given, _)| given == name)?;
        Some(self.arguments.remove(at).1)
    }

    fn take_text(&mut self, name: &'static str) -> Result<Option<String>, RuleProblem> {
        match self.take(name) {
            Some(RuleValue::Text(text)) => Ok(Some(text)),
            Some(RuleValue::List(_)) => Err(RuleProblem::Text(name)),
            Some(RuleValue::None) | None => Ok(None),
        }
    }

    /// Returns an error if an argument has not been taken.
    fn finish(self) -> Result<(), RuleProblem> {
        match self.arguments.into_iter().next() {
            Some((name, _)) => Err(RuleProblem::Argument(name)),
            None => Ok(()),
        }
    }
}

#[derive(Clone)]
enum RuleValue {
    Text(String),
    /// A list of texts and of lists of texts. No argument nests deeper.
    List(Vec<ListElement>),
    None,
}

#[derive(Clone)]
enum ListElement {
    Text(String),
    List(Vec<String>),
}

fn prefix_rule(mut call: RuleCall) -> Result<CommandRule, RuleProblem> {
    let pattern = pattern(call.take("pattern").ok_or(RuleProblem::Missing("pattern"))?)?;
    let decision = match call.take_text("decision")? {
        Some(decision) => decision_named(&decision)?,
        None => RuleDecision::Allow,
    };
    let rule = CommandRule { pattern, decision, justification: call.take_text("justification")? };
    for example in examples(call.take("match"), "match")? {
        if !rule.matches(&example) {
            return Err(RuleProblem::NoMatch(example.join(" ")));
        }
    }
    for example in examples(call.take("not_match"), "not_match")? {
        if rule.matches(&example) {
            return Err(RuleProblem::Match(example.join(" ")));
        }
    }
    call.finish()?;
    Ok(rule)
}

fn network_rule(mut call: RuleCall) -> Result<NetworkRule, RuleProblem> {
    let host = call.take_text("host")?.ok_or(RuleProblem::Missing("host"))?;
    let host = HostName::parse(host.trim()).ok_or(RuleProblem::Host(host))?;
    let protocol = call.take_text("protocol")?;
    let named = |name: String| protocol_named(&name).ok_or(RuleProblem::Protocol(name));
    let protocol = protocol.map(named).transpose()?;
    let decision = call.take_text("decision")?.ok_or(RuleProblem::Missing("decision"))?;
    let decision = if decision == "deny" { RuleDecision::Forbidden } else { decision_named(&decision)? };
    let justification = call.take_text("justification")?;
    call.finish()?;
    Ok(NetworkRule { host, protocol, decision, justification })
}

fn decision_named(name: &str) -> Result<RuleDecision, RuleProblem> {
    match name {
        "allow" => Ok(RuleDecision::Allow),
        "prompt" => Ok(RuleDecision::Prompt),
        "forbidden" => Ok(RuleDecision::Forbidden),
        name => Err(RuleProblem::Decision(name.to_owned())),
    }
}

fn pattern(value: RuleValue) -> Result<Vec<Vec<String>>, RuleProblem> {
    let RuleValue::List(elements) = value else { return Err(RuleProblem::Pattern) };
    let alternatives = elements.into_iter().map(|element| match element {
        ListElement::Text(word) => vec![word],
        ListElement::List(words) => words,
    });
    let pattern: Vec<_> = alternatives.collect();
    if pattern.is_empty() || pattern.iter().any(Vec::is_empty) {
        return Err(RuleProblem::Pattern);
    }
    Ok(pattern)
}

fn examples(value: Option<RuleValue>, name: &'static str) -> Result<Vec<Vec<String>>, RuleProblem> {
    let elements = match value {
        Some(RuleValue::List(elements)) => elements,
        Some(RuleValue::Text(_)) => return Err(RuleProblem::Examples(name)),
        Some(RuleValue::None) | None => return Ok(Vec::new()),
    };
    let words = elements.into_iter().map(|element| match element {
        ListElement::Text(line) => shlex::split(&line).ok_or(RuleProblem::Examples(name)),
        ListElement::List(words) => Ok(words),
    });
    words.collect()
}

struct RuleParser<'a> {
    tokens: &'a [(usize, RuleToken)],
    line: usize,
}

impl RuleParser<'_> {
    fn next(&mut self) -> Option<&RuleToken> {
        let ((line, token), rest) = self.tokens.split_first()?;
        self.line = *line;
        self.tokens = rest;
        Some(token)
    }

    fn skip(&mut self, mark: char) -> bool {
        let is_next = matches!(self.tokens.first(), Some((_, RuleToken::Mark(found))) if *found == mark);
        if is_next {
            self.next();
        }
        is_next
    }

    fn unexpected<T>(&mut self, expected: &'static str) -> Located<T> {
        let found = self.tokens.first();
        let line = found.map_or(self.line, |(line, _)| *line);
        let found = RuleToken::describe(found.map(|(_, token)| token));
        Err((line, RuleProblem::Unexpected { expected, found }))
    }

    fn call(&mut self) -> Located<Option<RuleCall>> {
        let (line, function) = match self.tokens.first() {
            None => return Ok(None),
            Some((line, RuleToken::Name(name))) => (*line, name.clone()),
            Some(_) => return self.unexpected("a rule such as `prefix_rule(...)`"),
        };
        self.next();
        if !self.skip('(') {
            return self.unexpected("`(`");
        }
        let mut arguments: Vec<(String, RuleValue)> = Vec::new();
        while !self.skip(')') {
            let (name, value) = self.argument()?;
            if arguments.iter().any(|(given, _)| *given == name) {
                return Err((self.line, RuleProblem::Twice(name)));
            }
            arguments.push((name, value));
            if !self.skip(',') && !matches!(self.tokens.first(), Some((_, RuleToken::Mark(')')))) {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(Some(RuleCall { function, line, arguments }))
    }

    fn argument(&mut self) -> Located<(String, RuleValue)> {
        let Some((_, RuleToken::Name(name))) = self.tokens.first() else {
            return self.unexpected("an argument such as `pattern=[...]`");
        };
        let name = name.clone();
        self.next();
        if !self.skip('=') {
            return self.unexpected("`=`");
        }
        Ok((name, self.value()?))
    }

    fn value(&mut self) -> Located<RuleValue> {
        if self.skip('[') {
            return Ok(RuleValue::List(self.list(Self::element)?));
        }
        match self.tokens.first() {
            Some((_, RuleToken::Text(_))) => Ok(RuleValue::Text(self.text()?)),
            Some((_, RuleToken::Name(name))) if name == "None" => {
                self.next();
                Ok(RuleValue::None)
            }
            _ => self.unexpected("a string or a list"),
        }
    }

    fn element(&mut self) -> Located<ListElement> {
        if self.skip('[') {
            return Ok(ListElement::List(self.list(Self::text)?));
        }
        Ok(ListElement::Text(self.text()?))
    }

    fn list<T>(&mut self, element: fn(&mut Self) -> Located<T>) -> Located<Vec<T>> {
        let mut elements = Vec::new();
        while !self.skip(']') {
            elements.push(element(self)?);
            if !self.skip(',') && !matches!(self.tokens.first(), Some((_, RuleToken::Mark(']')))) {
                return self.unexpected("`,` or `]`");
            }
        }
        Ok(elements)
    }

    fn text(&mut self) -> Located<String> {
        let Some((_, RuleToken::Text(text))) = self.tokens.first() else {
            return self.unexpected("a string");
        };
        let text = text.clone();
        self.next();
        Ok(text)
    }
}
