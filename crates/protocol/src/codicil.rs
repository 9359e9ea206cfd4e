//! The extension of the protocol: `capabilities.codicil` of `initialize` and the methods `codicil/*`.
//!
//! The tables here are separate from those of the published protocol and are exported only on request. A method of this
//! extension is refused on a connection that did not send the capability. `docs/extensions.md` describes it for users.

use crate::{methods::requests, *};

/// The version of the extension that this crate describes.
pub const CODICIL_VERSION: u32 = 1;

requests! {
    /// The requests of the extension.
    CODICIL_REQUESTS;

    /// Lists the server requests that wait for an answer.
    extension CodicilRequestList = "codicil/request/list" (CodicilRequestListParams) -> CodicilRequestListResponse;
    /// Answers a server request, from any connection.
    extension CodicilRequestAnswer = "codicil/request/answer" (CodicilRequestAnswerParams) -> CodicilRequestAnswerResponse;
}

/// The notifications of the extension.
pub const CODICIL_NOTIFICATIONS: &[MethodInfo] = &[];

/// The types of the extension that belong to no method: the capability and its answer.
pub const CODICIL_TYPES: &[TypeInfo] =
    &[TypeInfo::of::<CodicilCapabilities>(), TypeInfo::of::<CodicilSupport>()];

/// What a client asks of the extension, in `capabilities.codicil`.
#[wire(sparse)]
pub struct CodicilCapabilities {
    /// The version that the client speaks. The server answers with its own.
    pub version: u32,
    /// Adds `seq` to the messages of threads.
    #[serde(default)]
    pub cursor: bool,
}

/// What the server offers of the extension, in the result of `initialize`.
#[wire]
pub struct CodicilSupport {
    /// The version that the server speaks.
    pub version: u32,
    /// The names of the features, for example `cursor`. Names that a client does not know have no effect on it.
    pub features: Vec<String>,
    pub limits: CodicilLimits,
}

/// The limits of the extension.
#[wire(sparse)]
#[derive(Default)]
pub struct CodicilLimits {}
