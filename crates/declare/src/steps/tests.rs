mod calendar;
mod parsing;
mod period;
