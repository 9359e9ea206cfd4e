//! `codicil/sandbox/read`: how the server confines commands.

use codicil_protocol::{CodicilSandboxRead, CodicilSandboxReadParams};
use codicil_sandbox::MachineProbe;
use codicil_testkit::{App, Script};

#[tokio::test]
async fn the_probe_of_the_machine_is_read() {
    let mut app = App::builder().experimental().extension().script(Script::new()).start().await;
    let read = app.call::<CodicilSandboxRead>(CodicilSandboxReadParams {}).await;
    let probe = MachineProbe::cached();
    assert_eq!(read.is_available, probe.kind().is_ok());
    let (Ok(summary) | Err(summary)) = probe.verdict();
    assert_eq!(read.summary, summary);
    assert_eq!(read.details, probe.details());
}
