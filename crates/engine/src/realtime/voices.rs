//! The voices of the providers' voice models.

use codicil_protocol::{RealtimeVoice, RealtimeVoicesList};

/// Returns the voices that `thread/realtime/listVoices` lists.
pub fn realtime_voices() -> RealtimeVoicesList {
    use RealtimeVoice::{
        Alloy, Arbor, Ash, Ballad, Breeze, Cedar, Coral, Cove, Echo, Ember, Juniper, Maple, Marin, Sage,
        Shimmer, Sol, Spruce, Vale, Verse,
    };
    let v1 = vec![Juniper, Maple, Spruce, Ember, Vale, Breeze, Arbor, Sol, Cove];
    let v2 = vec![Alloy, Ash, Ballad, Coral, Echo, Sage, Shimmer, Verse, Marin, Cedar];
    RealtimeVoicesList { default_v1: Cove, default_v2: Marin, v1, v2, v3: Vec::new() }
}
