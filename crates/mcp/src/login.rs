//! `mcpServer/oauth/login`: signing in to a configured server.

use crate::{
    config::{ServerTable, ServerTransport},
    oauth::{LoginError, LoginOptions, OauthLogin, SignIn},
    pool::ServerPool,
};

impl ServerPool {
    /// Begins to sign in to a server. Threads use the token as soon as it is there.
    pub async fn login(
        &self,
        table: &ServerTable,
        name: &str,
        options: LoginOptions,
    ) -> Result<OauthLogin, LoginError> {
        let config = table.get(name).ok_or_else(|| LoginError::UnknownServer(name.to_owned()))?;
        let ServerTransport::Http(http) = &config.transport else { return Err(LoginError::NotHttp) };
        let sign_in = SignIn {
            server: name.to_owned(),
            config: http.clone(),
            scopes: config.scopes.clone(),
            settings: table.oauth.clone(),
            file: self.credentials().clone(),
            client_name: self.identity().name.clone(),
        };
        let begun = sign_in.begin(options).await;
        let login = begun.map_err(|error| LoginError::Failed { server: name.to_owned(), error })?;
        let (pool, server) = (self.clone(), name.to_owned());
        let completion = Box::pin(async move {
            login.completion.await?;
            pool.forgive(&server);
            Ok(())
        });
        Ok(OauthLogin { authorization_url: login.authorization_url, completion })
    }
}
