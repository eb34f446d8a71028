//! Where the demo talks: a live tree on a terminal, plain lines elsewhere. All of it goes to stderr.

use super::{
    story::news,
    tree::{Style, draw, line},
    view::View,
};
use crate::cli::{Failure, terminal};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use tokio::time::Instant;

/// The demo's screen.
pub(super) struct Screen {
    started: Instant,
    live: Option<ProgressBar>,
    style: Style,
    shown: Vec<View>,
    /// The application that changed last, by its place in the list: it is drawn whole.
    focus: usize,
}

impl Screen {
    /// A screen that counts time from `started`.
    pub(super) fn new(started: Instant) -> Screen {
        let live = terminal::stderr_is_live().then(|| {
            let bar = ProgressBar::new_spinner();
            // A template without a key that does not exist cannot be refused.
            if let Ok(style) = ProgressStyle::with_template("{msg}\n{spinner} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Screen {
            started,
            live,
            style: Style {
                color: terminal::color_on_stderr(),
            },
            shown: Vec::new(),
            focus: 0,
        }
    }

    /// Says something.
    pub(super) fn say(&self, text: &str) {
        match &self.live {
            Some(bar) => bar.println(text),
            None => terminal::tell(format_args!(
                "{:6.1} s  {text}",
                self.started.elapsed().as_secs_f64()
            )),
        }
    }

    /// Prints to stdout without disturbing what is drawn.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        match &self.live {
            Some(bar) => bar.suspend(|| terminal::print(text)),
            None => terminal::print(text),
        }
    }

    /// Shows where the applications stand.
    pub(super) fn show(&mut self, views: &[View]) {
        if views == self.shown {
            return;
        }
        let before = |view: &View| {
            let same = |other: &&View| other.namespace == view.namespace && other.name == view.name;
            self.shown.iter().find(same)
        };
        if let Some(changed) = views.iter().rposition(|view| before(view) != Some(view)) {
            self.focus = changed;
        }
        match &self.live {
            Some(bar) => {
                let drawn = views
                    .iter()
                    .enumerate()
                    .map(|(index, view)| match index == self.focus {
                        true => draw(view, self.style),
                        false => line(view, self.style),
                    });
                bar.set_message(drawn.collect::<String>());
            }
            None => {
                let news: Vec<String> = views.iter().flat_map(|view| news(before(view), view)).collect();
                news.iter().for_each(|line| self.say(line));
            }
        }
        self.shown = views.to_vec();
    }

    /// Removes what is drawn.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}
