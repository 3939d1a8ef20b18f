mod calendar;
mod parsing;
