//! `codicil app-server generate-ts` and `generate-json-schema`.

use std::{fs, path::Path};

use anyhow::Context;
use codicil_protocol::schema::{ExportAudience, ExportFile, json_schema, typescript};

use crate::args::{ExportArgs, ExportCommand};

pub fn run(export: ExportCommand) -> anyhow::Result<()> {
    match export {
        ExportCommand::GenerateTs(args) => write(&args, typescript(audience(&args))),
        ExportCommand::GenerateJsonSchema(args) => write(&args, json_schema(audience(&args))),
    }
}

fn audience(args: &ExportArgs) -> ExportAudience {
    if args.experimental { ExportAudience::Experimental } else { ExportAudience::Stable }
}

fn write(args: &ExportArgs, files: Vec<ExportFile>) -> anyhow::Result<()> {
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
