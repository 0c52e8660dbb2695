//! Posts beside somebody who is in a turn: left to him, if he has the lock (`commands`).

use super::Engine;
use crate::commands::{Command, Told};
use crate::names::{Notify, RequestId};
use crate::post::{Post, Refused};

impl Engine {
    /// Posts for a queue, or leaves it to whoever is in a turn.
    pub(crate) fn post_queued(&self, notify: Notify, post: Post) -> Result<(), Refused> {
        if self.is_free_to_post() {
            return self.post(post, Some(notify)).map(|_| ());
        }
        self.leave_behind(Command { told: Told::Queue(notify), post });
        Ok(())
    }

    /// Posts a request that is asked for by name, or leaves it to whoever is in a turn: somebody was a moment ago.
    #[cold]
    pub(crate) fn post_beside(&self, post: Post) -> Result<RequestId, Refused> {
        if self.is_free_to_post() {
            return self.post(post, None);
        }
        let Some(name) = self.commands.name() else {
            let posted = self.post(post, None);
            self.commands.lay_in(&mut self.lock().requests);
            return posted;
        };
        self.leave_behind(Command { told: Told::Asker(name), post });
        Ok(name)
    }

    fn is_free_to_post(&self) -> bool {
        !self.commands.is_turning() || self.try_lock().is_some()
    }

    fn post(&self, post: Post, notify: Option<Notify>) -> Result<RequestId, Refused> {
        match post {
            Post::Send(send, memory) => self.post_send(send, memory, notify),
            Post::Recv(recv, memory) => self.post_recv(recv, memory, notify),
        }
    }

    fn leave_behind(&self, command: Command) {
        if self.commands.leave(command) {
            self.looks.on_post();
        } else {
            let inner = self.lock_in_order(); // posts what was left
            self.after_post(inner, self.now(), false);
        }
    }
}
