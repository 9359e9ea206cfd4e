//! Many agents on few servers: shared or own servers, warm threads, windows and their forks.
