mod publication;
mod table;
