//! The rows of the table.

/// Hands the rows of the table to another macro.
macro_rules! parameter_rows {
    ($then:ident) => {
        $then! {
            files {
                /// Event files in time order: CSV, JSON, Parquet, Arrow, xlsx, XES or access logs, also compressed; a
                /// folder, for all files in it; a pattern such as 'daily/*.csv', in the order of names; or a URL, as
                /// s3://bucket/visits.csv. `-` reads standard input.
                Input input: PathList, None "FILE" PROGRAM, example "visits.csv"
            }
            files {
                /// TOML file that sets any of these flags, written without the leading dashes.
                Config config: PathBuf, None "FILE.toml" PROGRAM, example "visits.toml"
            }
            declaration {
                /// Column with the time of each event.
                Time time: String, Events "COLUMN" EVENT_READERS, example "departure", default "time" ""
            }
            declaration {
                /// Column with the date of each event, instead of `time`, if `time-of-day` is in another column.
                Date date: String, Events "COLUMN" EVENT_READERS, example "day"
            }
            declaration {
                /// Column with the time of day of each event, such as 9:05, 09:05:30 or 9:05 PM. Requires `date`.
                TimeOfDay time_of_day: String, Events "COLUMN" EVENT_READERS, example "clock"
            }
            declaration {
                /// Format of the times: auto (dates with or without a time of day and a zone), rfc3339 (an offset is
                /// required), date (dates only), epoch-seconds, epoch-millis, epoch-micros or epoch-nanos (numbers
                /// since 1970 UTC), or a pattern such as %d/%m/%Y %H:%M or %Y%m%d. With `time-of-day`, a pattern of the
                /// date alone, or of date and time of day with a blank between them.
                TimeFormat time_format: TimeFormat, Events "FORMAT" EVENT_READERS,
                    example "epoch-seconds", default "auto" "which refuses bare numbers"
            }
            declaration {
                /// First of the hundred years that years of two digits (%y) mean: 1950 means 1950 to 2049.
                CenturyFrom century_from: u32, Events "YEAR" EVENT_READERS,
                    example "1950", default "" "1969, so that 68 means 2068"
            }
            declaration {
                /// Policy for times that are dates without a time of day, if a step is shorter than the day.
                DateOnly date_only: DateOnly, Events "" EVENT_READERS, example "midnight", default "refuse" ""
            }
            declaration {
                /// Time zone of calendar steps, and of times without a zone.
                TimeZone time_zone: Zone, Events "ZONE" ALL, example "Europe/Copenhagen", default "UTC" ""
            }
            files {
                /// Format of the event files.
                InputFormat input_format: InputFormat, Events "" PROGRAM,
                    example "parquet", default "" "detected from the first bytes"
            }
            files {
                /// Character that separates the cells of a CSV line, such as ';' or tab.
                Delimiter delimiter: Delimiter, Events "CHARACTER" PROGRAM, example "tab", default "','" ""
            }
            files {
                /// Character around CSV cells that contain delimiters or line ends: '"', "'", or none if quotes are
                /// ordinary characters.
                Quote quote: Quote, Events "CHARACTER" PROGRAM, example "none", default "" "'\"'"
            }
            files {
                /// Number of lines to skip at the beginning of a CSV file, or of rows in a workbook, before the header.
                SkipLines skip_lines: u64, Events "N" PROGRAM, example "2", default "0" ""
            }
            files {
                /// Text at the beginning of each comment line of a CSV file; such lines are skipped.
                Comment comment: String, Events "TEXT" PROGRAM, example "#"
            }
            files {
                /// Names of the columns of CSV files and workbooks without a header.
                Columns columns: Vec<String>, Events "NAME" PROGRAM, example "time,hall,member"
            }
            files {
                /// Keys that lead to the array of events in a JSON file whose objects are inside of another object,
                /// such as features or data.items.
                JsonRecords json_records: String, Events "PATH" PROGRAM, example "data.items"
            }
            files {
                /// Name of the sheet to read of Excel workbooks.
                Sheet sheet: String, Events "NAME" PROGRAM,
                    example "Visits", default "" "the only visible sheet with cells"
            }
            files {
                /// Character encoding of text files, as a label of the WHATWG standard, such as windows-1252, utf-16 or
                /// shift_jis.
                Encoding encoding: String, Events "LABEL" PROGRAM,
                    example "windows-1252", default "" "UTF-8, or the encoding of the byte order mark"
            }
            files {
                /// Number of threads that read events, from 1 to 1024. Affects only the speed, never the result: rows
                /// are counted in order.
                Threads threads: u64, Events "N" PROGRAM, example "4", default "" "one per core, up to 16"
            }
            files {
                /// Memory limit for reading events, in MiB, at least 16; an input that needs more is refused. Never
                /// changes the result.
                ReadMemory read_memory: u64, Events "MIB" PROGRAM, example "1024", default "256" ""
            }
            declaration {
                /// Texts that mark a missing cell, such as NA.
                MissingText missing_text: Vec<String>, Events "TEXT" EVENT_READERS, example "NA,-"
            }
            declaration {
                /// Count only the rows for which this expression is true, such as status == "ok" and amount > 0. Other
                /// rows are treated as if they were not in the file. A stream has it for life.
                Where r#where: RowFilter, Events "EXPRESSION" ALL, example "amount > 0", default "" "all rows"
            }
            declaration {
                /// Normalise the texts of persons, groups and items before comparing them: nfc (compose characters),
                /// trim (remove blanks at both ends), casefold (ignore case), or several.
                NormaliseIds normalise_ids: Vec<Normalisation>, Events "nfc,trim,casefold" ALL,
                    example "nfc,trim", default "" "texts are compared byte by byte"
            }
            declaration {
                /// Policy for events with a missing cell in the time, person, value or key column.
                Missing missing: Refusable, Events "" ALL, example "skip", default "refuse" ""
            }
            files {
                /// Policy for rows that cannot be read: because of the time, the value or a cell of the `where`
                /// expression, or because a CSV record has too few or too many cells.
                BadRows bad_rows: BadRows, Events "" RELEASE_FILES, example "side-file", default "refuse" ""
            }
            files {
                /// CSV file for the original rows that cannot be read, which are NOT PRIVATE. With `continue`, each run
                /// that finds some writes a separate file, with a number before the extension.
                BadFile bad_file: PathBuf, Events "FILE" RELEASE_FILES, example "bad.csv"
            }
            declaration {
                /// Policy for events outside the horizon.
                Outside outside: Outside, Events "" ALL, example "skip", default "refuse" ""
            }
            declaration {
                /// Policy for events of undeclared groups, if there is no `rest`. This policy and those for events
                /// outside the horizon or with a missing cell can be changed while a stream continues.
                UnknownGroup unknown_group: Refusable, Events "" RELEASE_FILES, example "skip", default "refuse" ""
            }
            declaration {
                /// Policy for events of a step that an earlier run has closed: count them in the first open step, write
                /// them to the `late-file`, or refuse them.
                Late late: Late, Continuing "" RELEASE_FILES, example "next-step", default "refuse" ""
            }
            files {
                /// CSV file for the original late events, which are NOT PRIVATE. Each run that finds late events writes
                /// a separate file, with a number before the extension.
                LateFile late_file: PathBuf, Continuing "FILE" RELEASE_FILES, example "late.csv"
            }
            files {
                /// Read only new files, and append the resulting rows to the table. The state for this is saved next to
                /// the key; files that were read may be deleted.
                Continue r#continue: bool, Continuing "" RELEASE_FILES
            }
            files {
                /// Read all files again from the first, check that they reproduce the published values, and rewrite the
                /// whole table and the state that `continue` needs.
                Rebuild rebuild: bool, Continuing "" RELEASE_FILES
            }
            files {
                /// File with the events of a step, as a pattern of the step's start such as daily/%Y-%m-%d.csv. A step
                /// stays open until its file has been read. If no input is named, the unread files of all steps that
                /// have ended are read.
                Expect expect: String, Continuing "PATTERN" RELEASE_FILES, example "daily/%Y-%m-%d.csv"
            }
            files {
                /// When the horizon is over, start the next stream of the same declaration, with a separate budget, and
                /// append to the same table.
                Extend extend: bool, Continuing "" RELEASE_FILES
            }
            declaration {
                /// Sort events by time while reading, with a buffer of this many events, or of all events: in any order
                /// and number, in a temporary file if memory does not suffice.
                SortBuffer sort_buffer: SortLimit, Events "EVENTS" EVENT_READERS,
                    example "10000", default "0" "which refuses unsorted events"
            }

            declaration {
                /// Width of a step: 15m, 1h, 1d, 1w, 1mo, 1y, …
                Every every: Every, Steps "WIDTH" ALL, example "1d"
            }
            declaration {
                /// Start of the first step.
                Start start: String, Steps "TIME" ALL, example "2024-01-01"
            }
            declaration {
                /// End of the last step, exclusive: 2025-01-01 for all of 2024.
                End end: String, Steps "TIME" ALL, example "2025-01-01"
            }
            declaration {
                /// Number of steps, instead of `end`.
                Steps steps: u64, Steps "T" ALL, example "366"
            }
            declaration {
                /// Publish without an end, instead of `end`: the error of each step is close to the best possible if it
                /// were the last.
                Unbounded unbounded: bool, Steps "" RELEASE
            }
            declaration {
                /// Quantity published at every step: sum (all events so far), window(W) (events of the last W steps, or
                /// of a time span such as window(7d)), decay(H) (each event's weight halves every H steps, or every
                /// time span) or increments (events of that step alone). Several are read from one release:
                /// `window(7d)*4` makes the precision of that workload count four times as much as that of the others.
                Workload workload: Workloads, Steps "sum|window(W)|decay(H)|increments" RELEASE,
                    example "window(7d)", default "sum" ""
            }
            declaration {
                /// Publish only at the end of every time span, such as 1w or 1mo with daily steps, or of every given
                /// number of steps. The plan is made for the published values; contribution bounds, lateness and the
                /// ledger are still per step.
                Publish publish: Period, Steps "WIDTH" RELEASE, example "1w", default "" "every step"
            }
            declaration {
                /// Publish only the steps that end by this time; later steps can be published from the same data once
                /// more is appended.
                Through through: String, Steps "TIME" EVENT_READERS,
                    example "2024-07-01", default "" "the steps that have ended by now"
            }
            declaration {
                /// Publish all steps of the horizon, including future ones: nothing can follow.
                All all: bool, Steps "" PROGRAM
            }
            files {
                /// Ask nothing on a terminal; a run that ends a stream asks for no confirmation.
                Yes yes: bool, Steps "" PROGRAM
            }

            declaration {
                /// Sum this column instead of counting events.
                Value value: String, Values "COLUMN" ALL, example "price"
            }
            declaration {
                /// Smallest and largest value of one event, in units of the data.
                Bounds bounds: Vec<Decimal<String>>, Values "LOW,HIGH" ALL, example "0,100"
            }
            declaration {
                /// Distance between neighbouring values, such as 0.01; finer values are rounded.
                Grid grid: Decimal<Grid>, Values "G" ALL, example "0.01", default "1" ""
            }
            declaration {
                /// Decimal mark of numbers in texts.
                DecimalMark decimal_mark: DecimalMark, Values "" EVENT_READERS, example ",", default "." ""
            }
            declaration {
                /// Separator of thousands of numbers in texts.
                Thousands thousands: Thousands, Values "" EVENT_READERS, example ",", default "" "none"
            }
            declaration {
                /// Signs before or after a number in a text, which are ignored, such as $, EUR or %. A number with % is
                /// counted in percent: 12.5 % is 12.5.
                NumberAffixes number_affixes: Vec<String>, Values "SIGN" EVENT_READERS, example "$,EUR"
            }
            declaration {
                /// Measure to release at the end of every step, under one budget with the others: count, sum, mean,
                /// variance, std (standard deviation), distinct (people so far), distinct(WIDTH) (people in the last
                /// WIDTH steps, or in a time span such as 7d), histogram(CUT,…) (events by value) or quantile(SHARE).
                /// `mean*4` makes the precision of that measure count four times as much as that of the others when the
                /// budget is divided.
                Measure measure: Vec<Wanted>, Values "MEASURE" RELEASE_AND_TABLE,
                    example "mean", default "" "a running count or sum"
            }
            declaration {
                /// Policy for values outside the bounds.
                OutOfBounds out_of_bounds: OutOfBounds, Values "" ALL, example "refuse", default "clamp" ""
            }

            declaration {
                /// ε of ε-differential privacy (with `delta`: of (ε, δ)-differential privacy), from 1e-12 to 20.
                Epsilon epsilon: f64, Budget "E" ALL, example "1"
            }
            declaration {
                /// δ of (ε, δ)-differential privacy, above 0 and at most 0.1.
                Delta delta: f64, Budget "D" ALL, example "1e-6"
            }
            declaration {
                /// ρ of zero-concentrated differential privacy, from 1e-30 to 10.
                Rho rho: f64, Budget "R" ALL, example "0.5"
            }
            declaration {
                /// Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10, δ above
                /// 0.1).
                AllowWeakBudget allow_weak_budget: bool, Budget "" ALL
            }
            declaration {
                /// Column that names the person: all events of a person are protected together.
                Person person: String, Unit "COLUMN" ALL,
                    example "visitor", default "" "only single events are protected"
            }
            declaration {
                /// Word for a person in the report, the picture and the summary, such as patient.
                UnitName unit_name: String, Unit "WORD" PROGRAM,
                    example "patient", default "" "the name of the column of `person`"
            }
            declaration {
                /// Keep at most the first M events of each person, across all steps and groups (or keys).
                MaxEvents max_events: u64, Unit "M" ALL, example "10", default "" "as implied by other bounds"
            }
            declaration {
                /// Keep at most the first C events of each person in one step, across all groups (or keys). A smaller C
                /// reduces Gaussian noise.
                MaxEventsPerStep max_events_per_step: u64, Unit "C" ALL, example "2", default "" "no separate limit"
            }
            declaration {
                /// Keep at most the first G events of each person in one group, across all steps.
                MaxEventsPerGroup max_events_per_group: u64, Unit "G" RELEASE,
                    example "5", default "" "no separate limit"
            }
            declaration {
                /// Keep only the events of the first N groups of each person.
                MaxGroups max_groups: u64, Unit "N" RELEASE, example "3", default "" "no limit"
            }
            declaration {
                /// Cap each person's total absolute value at X; the event that crosses the cap is truncated to the part
                /// that fits. With `scales`, each value counts in units of its group's scale.
                MaxTotal max_total: Decimal<Grid>, Unit "X" RELEASE, example "250", default "" "no limit"
            }
            declaration {
                /// Keep only events of each person that are in the same step, or in steps at least this many steps
                /// apart.
                MinGap min_gap: u64, Unit "STEPS" ALL, example "7", default "" "no minimum"
            }
            declaration {
                /// Protect what a person does in one period, and restart all bounds in each: a calendar day, week (from
                /// Monday), month, quarter or year, a width such as 2w, or a number of steps, counted from the first
                /// step.
                Per per: Period, Unit "PERIOD" ALL, example "1mo", default "" "the whole history"
            }
            declaration {
                /// Protect what a person does in any window of this length instead of in one period of `per`: a width
                /// such as 30d, or a number of steps. The bounds restart with the periods.
                ProtectWindow protect_window: Period, Unit "LENGTH" ALL, example "30d", default "" "the period of `per`"
            }
            declaration {
                /// Assume that no person has more than M events in the data, across all steps and groups (or keys),
                /// instead of naming a `person` column. Nothing enforces this: the guarantee holds only for people
                /// within the bound.
                AssertMaxEvents assert_max_events: u64, Unit "M" ALL,
                    example "10", default "" "as implied by other bounds"
            }
            declaration {
                /// Assume likewise that no person has more than C events in one step, across all groups (or keys).
                AssertMaxEventsPerStep assert_max_events_per_step: u64, Unit "C" ALL,
                    example "2", default "" "no separate limit"
            }
            declaration {
                /// Assume likewise that no person has more than G events in one group, across all steps.
                AssertMaxEventsPerGroup assert_max_events_per_group: u64, Unit "G" RELEASE,
                    example "5", default "" "no separate limit"
            }
            declaration {
                /// Assume likewise that no person has events in more than N groups.
                AssertMaxGroups assert_max_groups: u64, Unit "N" RELEASE, example "3", default "" "no limit"
            }
            declaration {
                /// Assume likewise that the absolute values that count for a person, clamped to `bounds` and rounded to
                /// `grid`, sum to at most X.
                AssertMaxTotal assert_max_total: Decimal<Grid>, Unit "X" RELEASE, example "250", default "" "no limit"
            }
            declaration {
                /// Assume likewise that the steps in which a person has events are at least this many steps apart.
                AssertMinGap assert_min_gap: u64, Unit "STEPS" ALL, example "7", default "" "no minimum"
            }
            declaration {
                /// Who asserts these bounds, and why they hold: a public text for the report and the plan, of at most
                /// 200 characters.
                AssertedBy asserted_by: String, Unit "TEXT" ALL, example "the app sends at most ten a day"
            }
            declaration {
                /// Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.
                Neighbours neighbours: Neighbours, Unit "add-remove|replace-one" ALL,
                    example "replace-one", default "add-remove" ""
            }

            declaration {
                /// Mechanism, such as subtract(k=13).
                Mechanism mechanism: MechanismName, Mechanism "NAME" ALL,
                    example "subtract(k=13)", default "" "the one with the least error"
            }
            declaration {
                /// Noise distribution.
                Noise noise: NoiseKind, Mechanism "laplace|gaussian" ALL,
                    example "gaussian", default "" "the one with the least error that the budget allows"
            }
            declaration {
                /// Minimise the maximum or the mean error over the steps.
                Objective objective: Objective, Mechanism "max|mean" ALL, example "mean", default "max" ""
            }

            files {
                /// Secret key file, created with `evertally key new`.
                Key key: PathBuf, Key "FILE" PROGRAM, example "my.key"
            }
            files {
                /// Create the key file if it does not exist.
                CreateKey create_key: bool, Key "" PROGRAM
            }
            files {
                /// Budget file of the data source that this publication spends from, created with `evertally budget
                /// new`.
                BudgetFile budget_file: PathBuf, Key "FILE" PROGRAM, example "visits.budget"
            }
            declaration {
                /// Name of this stream; each name serves one data set.
                Stream stream: String, Key "NAME" ALL, example "visits", default "main" ""
            }

            files {
                /// Output file of the table: .csv, .jsonl or .parquet; `-` writes to standard output. Picture and
                /// report are written next to it.
                Out out: PathBuf, Output "FILE" PROGRAM, example "released.csv"
            }
            files {
                /// Format of the table.
                OutputFormat output_format: Format, Output "" PROGRAM,
                    example "jsonl", default "" "from the file name"
            }
            declaration {
                /// Confidence level of the intervals, between 0 and 1.
                Confidence confidence: f64, Output "P" EVENT_READERS, example "0.9", default "0.95" ""
            }
            declaration {
                /// Coverage of the intervals: each interval holds by itself, or all steps of a group hold at once.
                Band band: Coverage, Output "" RELEASES, example "simultaneous", default "pointwise" ""
            }
            declaration {
                /// Additional columns with adjusted copies of the released values: `non-negative`, `non-decreasing`
                /// (requires `band` simultaneous), `whole-number`, or several.
                View view: Vec<View>, Output "VIEW" RELEASES, example "non-negative"
            }
            declaration {
                /// Title of the picture and the report.
                Title title: String, Output "TEXT" PROGRAM, example "Visits per gate", default "" "the stream's name"
            }
            files {
                /// Draw no picture.
                NoPlot no_plot: bool, Output "" PROGRAM
            }
            files {
                /// Print the plan and its error, without reading any event.
                PlanOnly plan_only: bool, Output "" PROGRAM
            }
            files {
                /// Print no progress bar and no summary.
                Quiet quiet: bool, Output "" PROGRAM
            }

            declaration {
                /// Columns that name the group of an event, one or several.
                GroupBy group_by: Vec<String>, Groups "COLUMN" RELEASE, example "gate"
            }
            declaration {
                /// Groups to release. They are declared in advance: a group that appears only if the data contain it
                /// reveals that someone is in it.
                Groups groups: DeclaredGroups, Groups "NAME" RELEASE, example "north,south"
            }
            files {
                /// CSV file of the groups to release: one column for each `group-by` column, one row for each group.
                GroupsFile groups_file: PathBuf, Groups "FILE" RELEASE_FILES, example "gates.csv"
            }
            declaration {
                /// Release events of undeclared groups under this name instead of refusing them.
                Rest rest: String, Groups "NAME" RELEASE, example "other"
            }
            declaration {
                /// Factors that multiply `bounds` and `grid` in each group, in the order of the groups. All groups
                /// share one plan, and the noise of each is proportional to its factor. With bounds 0,1 a factor is the
                /// largest value of an event of the group.
                Scales scales: Vec<Decimal<Grid>>, Groups "S" RELEASE, example "1,2.5", default "" "1 for all"
            }
            files {
                /// Column of the `groups-file` with the `scales`.
                ScaleColumn scale_column: String, Groups "COLUMN" RELEASE_FILES, example "scale"
            }
            declaration {
                /// Factor that multiplies `bounds` and `grid` in the `rest`.
                RestScale rest_scale: Decimal<Grid>, Groups "S" RELEASE, example "2", default "" "1"
            }
            declaration {
                /// Correlate the noise of declared groups if that lowers the standard error of each group (groups), or
                /// of groups and their total (both); for the total alone (total), independent noise is best. Helps if a
                /// person is in several groups of one step. Needs Gaussian noise; groups cannot be added later.
                CorrelateGroups correlate_groups: GroupAim, Groups "" RELEASE,
                    example "groups", default "" "independent noise for each group"
            }
            declaration {
                /// Discover groups from the data instead of declaring them. A group is published from the first
                /// selection time at which its noisy value exceeds a threshold that a group with only one person would
                /// almost never reach. Requires `selection-delta` and a budget with δ or ρ.
                DiscoverGroups discover_groups: bool, Groups "" RELEASE
            }
            declaration {
                /// Upper bound on the probability that a group with only one person is published (with `per`: because
                /// of the events of one period; `floor` 2 makes it hold for all periods together). It is added to the δ
                /// of the budget.
                SelectionDelta selection_delta: f64, Groups "D" RELEASE, example "1e-9"
            }
            declaration {
                /// Number of steps between selection times, each of which tests all groups in the data; the last step
                /// is always one. Each selection time uses a share of `selection-delta`.
                SelectEvery select_every: u64, Groups "STEPS" RELEASE,
                    example "30", default "" "a twelfth of the horizon"
            }
            declaration {
                /// Never publish a group with fewer than N people (or events, if single events are protected), except
                /// with probability `selection-delta`. Raises the threshold; costs no budget.
                Floor floor: u64, Groups "N" RELEASE, example "20", default "" "the threshold for one person"
            }
            files {
                /// Groups to draw, up to twelve, in this order: names for one `group-by` column, or names joined by a
                /// slash for several.
                PlotGroups plot_groups: Vec<String>, Output "NAME" RELEASE_FILES,
                    example "north,south", default "" "the first twelve"
            }
            files {
                /// Draw the true counts too, and stamp the picture: it is NOT PRIVATE, for your eyes only.
                UnsafeShowTruth unsafe_show_truth: bool, Output "" RELEASE_FILES
            }

            declaration {
                /// Columns that together name the item of an event.
                KeyColumns key_columns: Vec<String>, Sketch "COLUMN" SKETCH, example "url"
            }
            declaration {
                /// Number of bits B, up to 39, if items are whole numbers from 0 to 2^B - 1 in one key column. Counts
                /// every block of them in a tree instead of a table, so that `threshold` finds heavy items without a
                /// list.
                KeyBits key_bits: u32, Sketch "B" SKETCH, example "32"
            }
            declaration {
                /// Number of sketch rows: odd, up to 31. More rows make large errors rarer but add noise.
                Rows rows: u32, Sketch "R" SKETCH, example "7", default "5" ""
            }
            declaration {
                /// Cells per row, up to 2^32. More cells mean fewer collisions, at the cost of memory only.
                Width width: u64, Sketch "W" SKETCH, example "262144", default "65536" ""
            }

            questions {
                /// CSV, JSON Lines or Parquet file with the key columns: each row gets an answer, even if its item does
                /// not occur. The list must be public and never made from the data: being on it would reveal something.
                Queries queries: PathBuf, Questions "FILE" SKETCH, example "queries.csv"
            }
            questions {
                /// File with the key columns of candidate items; the heaviest are reported, by `top` or `threshold`.
                /// The list must be public, like that of `queries`.
                Candidates candidates: PathBuf, Questions "FILE" SKETCH, example "candidates.csv"
            }
            questions {
                /// Report the N heaviest candidates; for a release, the N fastest-growing groups of each step, in a
                /// second table (`.top.csv`).
                Top top: usize, Questions "N" RELEASE_AND_SKETCH, example "10"
            }
            questions {
                /// Report the candidates whose estimate is at least X; with `key-bits`, all keys whose estimate is.
                Threshold threshold: f64, Questions "X" SKETCH, example "1000"
            }
            questions {
                /// Answer for the steps that contain these times.
                At at: Vec<String>, Questions "TIME" SKETCH, example "2024-02-01", default "" "the last step"
            }
            questions {
                /// Answer each query for the step that contains the time in this column of its file, in the format of
                /// the event times.
                AtColumn at_column: String, Questions "COLUMN" SKETCH, example "when"
            }
            questions {
                /// Answer after every given number of steps, and after the last.
                EveryQuery every_query: u64, Questions "STEPS" SKETCH, example "7"
            }
            files {
                /// Print a JSON summary to standard output.
                Json json: bool, Output "" PROGRAM
            }
        }
    };
}
pub(crate) use parameter_rows;
