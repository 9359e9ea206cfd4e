//! `codicil app-server generate-ts` and `generate-json-schema`: write the protocol's types to files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use codicil_protocol::schema::{ExportAudience, ExportFile, json_schema, typescript};

#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Write the protocol as TypeScript.
    GenerateTs(GenerateArgs),
    /// Write the protocol as JSON Schema.
    GenerateJsonSchema(GenerateArgs),
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The directory to write to; it is created if necessary.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Include what clients must opt in to.
    #[arg(long)]
    experimental: bool,
    /// Accepted for scripts that pass it. The output is formatted already.
    #[arg(short, long, value_name = "BIN", hide = true)]
    prettier: Option<PathBuf>,
}

pub fn run(command: GenerateCommand) -> anyhow::Result<ExitCode> {
    match command {
        GenerateCommand::GenerateTs(args) => write(&args, typescript(audience(&args)))?,
        GenerateCommand::GenerateJsonSchema(args) => write(&args, json_schema(audience(&args)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn audience(args: &GenerateArgs) -> ExportAudience {
    if args.experimental { ExportAudience::Experimental } else { ExportAudience::Stable }
}

fn write(args: &GenerateArgs, files: Vec<ExportFile>) -> anyhow::Result<()> {
    for file in files {
        let path = args.out.join(file.path);
        write_file(&path, &file.content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_file(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}
