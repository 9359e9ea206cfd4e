//! Reads the input of the turn: the prompt, images, an output schema.

use std::{
    io::{IsTerminal, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use codicil_protocol::UserInput;
use serde_json::Value;

/// Maximum length of standard input. It exceeds what a turn accepts, so that the server reports the limit.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the prompt, from the command line, standard input, or both.
pub fn read(argument: Option<String>) -> anyhow::Result<String> {
    let argument = argument.filter(|text| text != "-");
    let is_piped = !std::io::stdin().is_terminal();
    match argument {
        Some(text) if !is_piped => Ok(text),
        Some(text) => Ok(with_piped_input(text, &piped()?)),
        None => {
            ensure!(is_piped, "no prompt: give it as an argument, or pipe it in");
            let text = piped()?;
            ensure!(!text.trim().is_empty(), "no prompt: standard input is empty");
            Ok(text)
        }
    }
}

/// Appends piped input to the prompt, marked as such.
fn with_piped_input(prompt: String, piped: &str) -> String {
    if piped.trim().is_empty() {
        return prompt;
    }
    let end = if piped.ends_with('\n') { "" } else { "\n" };
    format!("{prompt}\n\n<stdin>\n{piped}{end}</stdin>")
}

fn piped() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "standard input has more than {} MiB", MAX_BYTES >> 20);
    String::from_utf8(bytes).context("standard input is not UTF-8")
}

/// Returns the input of the turn: images first, then the prompt.
pub fn input(prompt: String, images: &[PathBuf], base: &Path) -> anyhow::Result<Vec<UserInput>> {
    let mut input = Vec::with_capacity(images.len() + 1);
    for image in images {
        let path = base.join(image);
        ensure!(path.is_file(), "no such image: {}", path.display());
        input.push(UserInput::local_image(path.to_string_lossy()));
    }
    input.push(UserInput::Text { text: prompt, text_elements: Vec::new() });
    Ok(input)
}

/// Reads a JSON Schema from a file.
pub fn schema(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the output schema {}", path.display()))?;
    let schema: Value = serde_json::from_str(&text)
        .with_context(|| format!("the output schema {} is not JSON", path.display()))?;
    if !schema.is_object() {
        bail!("the output schema {} is not a JSON object", path.display());
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_is_appended_to_the_prompt() {
        assert_eq!(with_piped_input("Explain".into(), "a log\n"), "Explain\n\n<stdin>\na log\n</stdin>");
        assert_eq!(with_piped_input("Explain".into(), "a log"), "Explain\n\n<stdin>\na log\n</stdin>");
        assert_eq!(with_piped_input("Explain".into(), " \n"), "Explain");
    }
}
