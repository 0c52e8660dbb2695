//! What a core counts beside the protocol and the links.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the core was made. Plain numbers behind the engine's lock: counting costs an addition.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }
        impl Counters {
            /// Names and values, in the order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Turns.
    turns,
    /// Turns that found nothing to do.
    turns_idle,
    /// Turns of the helper.
    turns_of_helper,
    /// Posts that were left for whoever was in a turn.
    posts_left,
    /// Times somebody slept for lack of work.
    sleeps,
    /// Frames to the endpoint itself, which no link carried.
    frames_to_self,
    /// Payload copied from frames to the application's memory.
    bytes_copied_in,
    /// Of these, what a second thread copied.
    bytes_copied_beside,
    /// Payload copied from the application's memory to frames.
    bytes_copied_out,
    /// Payload that landed in its place without a copy of ours.
    bytes_landed,
    /// Payload that landed in the wrong place and was moved.
    landings_wrong,
    /// Frames of granted data that left next to each other.
    frames_in_trains,
    /// Bursts a link did not take whole.
    sends_blocked,
    /// Errors of links, taken for lost frames.
    link_errors,
    /// Times at which writes of peers with an immediate began to be refused, since nobody had asked for those before.
    notices_held,
    /// Copied messages that no peer accepted.
    copies_lost,
}
