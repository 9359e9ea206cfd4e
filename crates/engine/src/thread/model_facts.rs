//! What a thread finds out about its model before a turn, and the warnings about settings that the model does not
//! support.

use codicil_model::{WindowReport, WireApi};
use codicil_protocol::{ConfigWarning, ConfigWarningNotification};

use super::actor::ThreadActor;
use crate::model_support::{ModelSupport, warning};

/// The number of different warnings that a thread sends. A client could cause any number with invented settings.
const MAX_WARNINGS: usize = 32;

impl ThreadActor {
    /// Asks a local server for the context window of the thread's model, unless it is known or was asked recently.
    pub(super) async fn learn_about_model(&mut self) {
        let settings = &self.state.settings;
        self.served = self.engine.served_models(&settings.provider, &self.state.config).ok().flatten();
        if let Some(served) = &self.served
            && !self.is_window_certain()
        {
            served.context_window(&settings.model).await;
        }
    }

    /// Returns whether no server can know the context window better: it is configured, or the model is a vendor's.
    fn is_window_certain(&self) -> bool {
        let info = self.model_info();
        let is_vendors = !info.slug.is_empty() && info.wire_api != WireApi::Chat;
        is_vendors || self.state.config.settings.model_context_window.is_some()
    }

    /// Notifies clients of settings that have no effect and of an unknown context window, once each.
    pub(super) fn warn_about_model(&mut self) {
        let Ok(provider) = self.provider() else { return };
        let wire_api = provider.wire_api();
        if wire_api == WireApi::Scripted {
            return;
        }
        let mut warnings = self.model_support().warnings(&self.state.settings, wire_api);
        warnings.extend(self.window_warning());
        for warning in warnings {
            if self.warned.len() < MAX_WARNINGS && self.warned.insert(warning.summary.clone()) {
                self.notifier.notify::<ConfigWarning>(&warning);
            }
        }
    }

    /// Warns with every turn that nothing is known about the model.
    pub(super) fn warn_about_unknown_model(&self) {
        let model = &self.state.settings.model;
        let report = self.served.as_ref().map(|served| served.last_report(model));
        let is_known = self.is_window_certain()
            || self.model_support().is_in_catalogue()
            || matches!(report, Some(WindowReport::Tokens(_)));
        let is_scripted = self.provider().is_ok_and(|provider| provider.wire_api() == WireApi::Scripted);
        if !is_known && !is_scripted {
            self.notifier.warning(format!(
                "Model metadata for `{model}` not found. Defaulting to fallback metadata; this can degrade performance \
                 and cause issues."
            ));
        }
    }

    fn window_warning(&self) -> Option<ConfigWarningNotification> {
        let model = &self.state.settings.model;
        let report = self.served.as_ref().map(|served| served.last_report(model));
        let is_known = self.is_window_certain() || self.model_support().is_in_catalogue();
        if is_known || matches!(report, Some(WindowReport::Tokens(_) | WindowReport::Unanswered)) {
            return None;
        }
        let assumed = self.model_info().context_window;
        Some(warning(
            format!("the context window of model `{model}` is unknown: {assumed} tokens are assumed"),
            "Set `model_context_window` in config.toml to the number of tokens that the provider accepts, so that long \
             threads are compacted in time.",
        ))
    }

    pub(super) fn model_support(&self) -> ModelSupport<'_> {
        ModelSupport { info: self.model_info(), config: &self.state.config }
    }
}
