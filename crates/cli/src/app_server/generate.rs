//! `codicil app-server generate-ts` and `generate-json-schema`: write the protocol's types to files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use codicil_protocol::{
    ProtocolGeneration,
    schema::{
        ExportAudience, ExportFile, ExportScope, codicil_json_schema, codicil_typescript, json_schema,
        typescript,
    },
};

#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Write the protocol as TypeScript.
    GenerateTs(GenerateArgs),
    /// Write the protocol as JSON Schema.
    GenerateJsonSchema(GenerateArgs),
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The directory to write to; it is created if necessary [default: schema/typescript or schema/json].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The generation of the protocol: 0.118 or 0.166.
    #[arg(long, value_name = "VERSION", default_value_t = ProtocolGeneration::V118)]
    generation: ProtocolGeneration,
    /// Include what clients must opt in to.
    #[arg(long)]
    experimental: bool,
    /// Add the methods `codicil/*` and their types, in the folder `codicil`.
    #[arg(long)]
    codicil: bool,
    /// Accepted for scripts that pass it. The output is formatted already.
    #[arg(short, long, value_name = "BIN", hide = true)]
    prettier: Option<PathBuf>,
}

pub fn run(command: GenerateCommand) -> anyhow::Result<ExitCode> {
    match command {
        GenerateCommand::GenerateTs(args) => {
            write(&args, "schema/typescript", files(&args, typescript, codicil_typescript))?;
        }
        GenerateCommand::GenerateJsonSchema(args) => {
            write(&args, "schema/json", files(&args, json_schema, codicil_json_schema))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the files of an export, with those of the extension if they are asked for.
fn files(
    args: &GenerateArgs,
    published: fn(ExportScope) -> Vec<ExportFile>,
    extension: fn(ExportScope) -> Vec<ExportFile>,
) -> Vec<ExportFile> {
    let audience = if args.experimental { ExportAudience::Experimental } else { ExportAudience::Stable };
    let scope = ExportScope { generation: args.generation, audience };
    let mut files = published(scope);
    if args.codicil {
        files.extend(extension(scope));
    }
    files
}

/// Writes the files. The default directory is printed, because the user has not named it.
fn write(args: &GenerateArgs, default_out: &str, files: Vec<ExportFile>) -> anyhow::Result<()> {
    let out = args.out.as_deref().unwrap_or(Path::new(default_out));
    let count = files.len();
    for file in files {
        let path = out.join(file.path);
        write_file(&path, &file.content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.out.is_none() {
        println!("{count} files written to {default_out}");
    }
    Ok(())
}

fn write_file(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}
