//! `codicil app-server generate-ts` and `generate-json-schema`.

use std::{fs, path::Path};

use anyhow::Context;
use codicil_protocol::schema::{Audience, File, json_schema, typescript};

use crate::args::{Export, ExportArgs};

pub fn run(export: Export) -> anyhow::Result<()> {
    match export {
        Export::GenerateTs(args) => write(&args, typescript(audience(&args))),
        Export::GenerateJsonSchema(args) => write(&args, json_schema(audience(&args))),
    }
}

fn audience(args: &ExportArgs) -> Audience {
    if args.experimental { Audience::Experimental } else { Audience::Stable }
}

fn write(args: &ExportArgs, files: Vec<File>) -> anyhow::Result<()> {
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
