//! Where a watch draws: a live tree on a terminal, lines elsewhere, or JSON a line.

use super::lines::lines;
use crate::cli::{
    Failure,
    format::Format,
    status::{StatusView, Style, draw, footer, headline},
    terminal,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use roundhouse_api::clock::{Clock, SystemClock};
use std::time::Duration;
use tokio::time::Instant;

/// The screen of a watch; all of it is stdout.
pub(super) struct Screen {
    started: Instant,
    json: bool,
    live: Option<ProgressBar>,
    style: Style,
    shown: Option<StatusView>,
}

impl Screen {
    pub(super) fn new(json: bool) -> Screen {
        let live = (!json && terminal::stdout_is_live()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            // A template without a key that does not exist cannot be refused.
            if let Ok(style) = ProgressStyle::with_template("{msg}\n{spinner} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Screen {
            started: Instant::now(),
            json,
            live,
            style: Style {
                color: terminal::color_on_stdout(),
            },
            shown: None,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Shows where the application stands, if that is something new.
    pub(super) fn show(&mut self, view: &StatusView) -> Result<(), Failure> {
        if self.shown.as_ref() == Some(view) {
            return Ok(());
        }
        let news = lines(self.shown.as_ref(), view);
        self.shown = Some(view.clone());
        if self.json {
            return terminal::print(&format!("{}\n", view.structured()));
        }
        if self.is_live() {
            self.tick();
            return Ok(());
        }
        let text: String = news.iter().map(|line| self.stamped(line)).collect();
        terminal::print(&text)
    }

    /// Draws the ages anew.
    pub(super) fn tick(&self) {
        if let (Some(bar), Some(view)) = (&self.live, &self.shown) {
            bar.set_message(draw(view, Format::Tree, self.style, SystemClock.now()));
        }
    }

    /// Says something about the watch itself.
    pub(super) fn say(&self, text: &str) {
        match &self.live {
            Some(bar) => bar.println(text),
            None => terminal::say(&self.stamped(text)),
        }
    }

    /// The last word: what was drawn stays on the terminal.
    pub(super) fn end(&mut self, view: &StatusView) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        let text = match self.live.take() {
            Some(bar) => {
                bar.finish_and_clear();
                draw(view, Format::Tree, self.style, SystemClock.now())
            }
            None => headline(view, self.style) + &footer(view, self.style),
        };
        terminal::print(&text)
    }

    fn stamped(&self, line: &str) -> String {
        format!("{:6.1} s  {line}\n", self.started.elapsed().as_secs_f64())
    }
}
