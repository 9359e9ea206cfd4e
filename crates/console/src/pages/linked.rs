//! The turn or item that a link leads to, on a page that has no room for it.
//!
//! The page shows the items of the turn around the linked one, in a section of their own before the end of the thread. Those
//! before and after them are loaded on demand.

use axum::extract::{Path, Query, State};
use codicil_client::protocol::{
    ItemId, SortDirection, ThreadId, ThreadItem, ThreadItemsList, ThreadItemsListAnchor,
    ThreadItemsListCursor, ThreadItemsListParams, Turn, TurnId,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{PageError, item_content::find_item, items, older::turn_heads, turns};
use crate::{live::TurnView, render::text::url_part, state::Console};

/// Items that are loaded at a time, before or after another one.
const LINKED_ITEMS: u32 = 40;

/// HTML of the items that are loaded at a time, in bytes.
const LINKED_BYTES: usize = 50_000;

/// The turn or item that a link leads to.
#[derive(Debug)]
pub struct LinkedPlace {
    pub turn: TurnId,
    pub item: Option<ItemId>,
}

impl LinkedPlace {
    /// Returns whether a page shows the place.
    pub fn is_on(&self, page: &Markup) -> bool {
        match &self.item {
            Some(item) => has_element(page, &items::element_id(&self.turn, item)),
            None => has_element(page, &turns::element_id(&self.turn)),
        }
    }
}

fn has_element(page: &Markup, id: &str) -> bool {
    page.0.contains(&format!("id=\"{id}\""))
}

/// Returns the turn that a link leads to. `page` has the turns that are shown anyway.
pub async fn linked_turn(
    console: &Console,
    thread: &ThreadId,
    place: &LinkedPlace,
    page: &Markup,
) -> Result<Markup, PageError> {
    let gone =
        html! { p.notice role="status" { "What the link leads to is not part of this thread any more." } };
    let Some(head) = turn_heads(console, thread, vec![place.turn.clone()]).await?.pop() else {
        return Ok(gone);
    };
    let turn =
        LinkedTurn { console, thread, view: TurnView { plan: head.plan, ..TurnView::from(head.turn) } };
    let is_known = |id: &ItemId| has_element(page, &items::element_id(&place.turn, id));
    let (before, linked, after) = match &place.item {
        None => (ShownItems::default(), html! {}, turn.read(None, SortDirection::Asc).await?),
        Some(id) => {
            let Ok(item) = find_item(console, thread, &place.turn, id).await else { return Ok(gone) };
            let before = turn.read(Some(id), SortDirection::Desc).await?;
            let after = turn.read(Some(id), SortDirection::Asc).await?;
            (turn.fit(before, is_known), items::item(thread, &turn.view, &item), after)
        }
    };
    let after = turn.fit(after, is_known);
    // The end of a turn that the page shows in part is there.
    let is_apart = !has_element(page, &turns::element_id(&place.turn));
    let id = is_apart.then(|| turns::element_id(&place.turn));
    Ok(html! {
        section.linked aria-label="Linked turn" {
            header { h2 { "Linked turn" } a href={ "/threads/" (thread) } { "Go to the end of the thread" } }
            section.turn id=[id] aria-label="Turn" {
                (turn.earlier(&before))
                div.items { (before.in_order()) (linked) (after.in_order()) (turn.later(&after)) }
                @if is_apart { (turns::end(thread, &turn.view)) }
            }
        }
    })
}

#[derive(Debug, Deserialize)]
pub struct TurnItemsQuery {
    /// The first item that is shown already.
    before: Option<String>,
    /// The last item that is shown already.
    after: Option<String>,
}

/// `GET /threads/{thread}/turns/{turn}/items`: the items of a linked turn before or after one, as a part of the page.
pub async fn turn_items(
    State(console): State<Console>,
    Path((thread, turn)): Path<(String, String)>,
    Query(query): Query<TurnItemsQuery>,
) -> Result<Markup, PageError> {
    let thread = ThreadId::from(thread);
    let view = TurnView::from(Turn::in_progress(TurnId::from(turn)));
    let turn = LinkedTurn { console: &console, thread: &thread, view };
    let (anchor, direction) = match query {
        TurnItemsQuery { before: Some(id), .. } => (ItemId::from(id), SortDirection::Desc),
        TurnItemsQuery { after: Some(id), .. } => (ItemId::from(id), SortDirection::Asc),
        TurnItemsQuery { .. } => {
            return Err(PageError::BadRequest("say before or after which item".to_owned()));
        }
    };
    let found = turn.read(Some(&anchor), direction).await?;
    let shown = turn.fit(found, |_| false);
    Ok(match direction {
        SortDirection::Asc => html! { (shown.in_order()) (turn.later(&shown)) },
        _ => html! { (turn.earlier(&shown)) (shown.in_order()) },
    })
}

/// The turn of a link, without its items.
struct LinkedTurn<'a> {
    console: &'a Console,
    thread: &'a ThreadId,
    view: TurnView,
}

/// Items of a turn that follow one another in a direction.
struct FoundItems {
    items: Vec<ThreadItem>,
    direction: SortDirection,
    has_more: bool,
}

/// Items as HTML.
#[derive(Default)]
struct ShownItems {
    /// From the linked item on, in either direction.
    html: Vec<Markup>,
    is_reversed: bool,
    /// The item that the next part begins after, if there is one.
    edge: Option<ItemId>,
}

impl ShownItems {
    fn in_order(&self) -> Markup {
        let mut parts: Vec<&Markup> = self.html.iter().collect();
        if self.is_reversed {
            parts.reverse();
        }
        html! { @for part in parts { (part) } }
    }
}

impl LinkedTurn<'_> {
    /// Reads the items before or after one, or the first ones.
    async fn read(&self, anchor: Option<&ItemId>, direction: SortDirection) -> Result<FoundItems, PageError> {
        let anchor = anchor.map(|id| ThreadItemsListAnchor::Item { item_id: id.clone() });
        let params = ThreadItemsListParams {
            thread_id: self.thread.clone(),
            turn_id: Some(self.view.id.clone()),
            cursor: anchor.map(ThreadItemsListCursor::Anchor),
            limit: Some(LINKED_ITEMS),
            sort_direction: Some(direction),
        };
        let page = self.console.client.call::<ThreadItemsList>(params).await?;
        let items = page.data.into_iter().map(|entry| entry.item).collect();
        Ok(FoundItems { items, direction, has_more: page.next_cursor.is_some() })
    }

    /// Renders items, as many as fit, up to one that is shown elsewhere on the page.
    fn fit(&self, found: FoundItems, is_known: impl Fn(&ItemId) -> bool) -> ShownItems {
        let is_reversed = found.direction == SortDirection::Desc;
        let mut shown = ShownItems { is_reversed, ..ShownItems::default() };
        let mut bytes = 0;
        let mut has_more = found.has_more;
        for item in &found.items {
            let Some(id) = item.id() else { continue };
            if is_known(id) {
                return ShownItems { edge: None, ..shown };
            }
            if bytes > LINKED_BYTES {
                has_more = true;
                break;
            }
            let html = items::item(self.thread, &self.view, item);
            bytes += html.0.len();
            shown.html.push(html);
            shown.edge = Some(id.clone());
        }
        ShownItems { edge: shown.edge.take().filter(|_| has_more), ..shown }
    }

    fn earlier(&self, shown: &ShownItems) -> Markup {
        self.more("before", "Show earlier items", shown)
    }

    fn later(&self, shown: &ShownItems) -> Markup {
        self.more("after", "Show later items", shown)
    }

    fn more(&self, side: &str, label: &str, shown: &ShownItems) -> Markup {
        let Some(edge) = &shown.edge else { return html! {} };
        let address =
            format!("/threads/{}/turns/{}/items?{side}={}", self.thread, self.view.id, url_part(edge));
        html! { p.more { a.button data-more="" href=(address) { (label) } } }
    }
}
