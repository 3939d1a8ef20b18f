mod calendar;
mod parsing;
mod period;
mod transitions;
