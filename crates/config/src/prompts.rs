//! Prompts that a configuration keeps in files of their own.

use std::path::Path;

use crate::{error::ConfigError, files::read_regular, settings::ConfigSettings};

impl ConfigSettings {
    /// Puts the contents of the files that are named where the texts themselves would stand. Of
    /// instructions the file counts, of compaction prompts the text, as in codex.
    pub(crate) fn read_prompts(&mut self) -> Result<(), ConfigError> {
        if let Some(path) = self.instructions_file() {
            self.instructions = Some(prompt(Path::new(path))?);
        }
        if let (None, Some(path)) = (&self.compact_prompt, &self.experimental_compact_prompt_file) {
            self.compact_prompt = Some(prompt(Path::new(path))?);
        }
        Ok(())
    }

    fn instructions_file(&self) -> Option<&str> {
        self.model_instructions_file.as_deref().or(self.experimental_instructions_file.as_deref())
    }
}

/// A prompt that says nothing is a mistake: whoever named the file wanted it to say something.
fn prompt(path: &Path) -> Result<String, ConfigError> {
    let text = read_regular(path).map_err(|error| ConfigError::unreadable(path, error))?;
    match text.trim() {
        "" => Err(ConfigError::unreadable(path, "the file is empty")),
        text => Ok(text.to_owned()),
    }
}
