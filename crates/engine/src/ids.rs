//! New ids. They sort in the order of their creation.

use codicil_protocol::{ItemId, TurnId};
use uuid::Uuid;

pub(crate) fn new_turn_id() -> TurnId {
    TurnId::from(Uuid::now_v7().to_string())
}

pub(crate) fn new_item_id() -> ItemId {
    ItemId::from(Uuid::now_v7().to_string())
}
