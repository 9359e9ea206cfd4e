//! The voices of the providers' voice models.

use codicil_protocol::{RealtimeVoice, RealtimeVoicesList};

/// Returns the voices that `thread/realtime/listVoices` lists.
pub fn realtime_voices() -> RealtimeVoicesList {
    use RealtimeVoice::{
        Alloy, Arbor, Ash, Aube, Ballad, Breeze, Bubbie, Cedar, Coral, Cove, Echo, Ember, Haetsal, Hanul,
        Himari, Juniper, Leher, Maple, Marin, Miko, Neer, Porto, Rindo, Rio, Rivage, Sage, Selva, Shimmer,
        Sol, Sonna, Spruce, Tinta, Vale, Verse, Viola,
    };
    let v1 = vec![Juniper, Maple, Spruce, Ember, Vale, Breeze, Arbor, Sol, Cove];
    let v2 = vec![Alloy, Ash, Ballad, Coral, Echo, Sage, Shimmer, Verse, Marin, Cedar];
    let later = [
        Aube, Bubbie, Haetsal, Hanul, Himari, Leher, Miko, Neer, Porto, Rindo, Rio, Rivage, Selva, Sonna,
        Tinta, Viola,
    ];
    let v3 = v1.iter().cloned().chain(later).collect();
    RealtimeVoicesList { default_v1: Cove, default_v2: Marin, v1, v2, v3 }
}
