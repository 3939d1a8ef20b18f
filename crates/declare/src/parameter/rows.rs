//! The rows of the table.

/// Hands the rows of the table to another macro.
macro_rules! parameter_rows {
    ($then:ident) => {
        $then! {
            files {
                /// Event files in order of time: CSV, JSON lines or Parquet, plain or compressed with gzip or zstd; `-` is
                /// standard input.
                Input input: Paths, None "FILE" PROGRAM
            }
            files {
                /// TOML file with any of these flags, without the dashes in front.
                Config config: PathBuf, None "FILE.toml" PROGRAM
            }
            declaration {
                /// Column with the time of an event.
                Time time: String, Events "COLUMN" READERS, default "time" ""
            }
            declaration {
                /// How times are written: auto (dates with or without a time of day and an offset), rfc3339 (only those with an
                /// offset), date (only dates), epoch-seconds or epoch-millis (numbers since 1970 UTC), or a pattern such as
                /// %d/%m/%Y %H:%M or %Y%m%d.
                TimeFormat time_format: TimeFormat, Events "FORMAT" READERS, default "auto" "which refuses bare numbers"
            }
            declaration {
                /// Zone of times without an offset, and of calendar steps.
                TimeZone time_zone: Zone, Events "ZONE" ALL, default "UTC" ""
            }
            files {
                /// Input format.
                InputFormat input_format: TableFormat, Events "" PROGRAM, default "" "found out from the first bytes"
            }
            files {
                /// What separates the cells of a CSV line, such as ';' or tab.
                Delimiter delimiter: Delimiter, Events "CHARACTER" PROGRAM, default "','" ""
            }
            files {
                /// How many threads read events, from 1 to 1024. Changes no result, only the time: rows count in their order.
                Threads threads: u64, Events "N" PROGRAM, default "" "as many as there are cores, up to 16"
            }
            files {
                /// Memory for reading events, in MiB, from 16 on: an input that would take more is refused. Changes no result.
                ReadMemory read_memory: u64, Events "MIB" PROGRAM, default "256" ""
            }
            declaration {
                /// Texts that stand for a missing cell, such as NA.
                MissingText missing_text: Vec<String>, Events "TEXT" READERS
            }
            declaration {
                /// Normalise the texts of persons, groups and items before they are compared: nfc (compose characters), trim
                /// (remove blanks at both ends), casefold (ignore case), or several.
                NormaliseIds normalise_ids: Vec<Normalisation>, Events "nfc,trim,casefold" ALL, default "" "compare texts byte for byte"
            }
            declaration {
                /// What to do with an event whose person, value or key column is missing.
                Missing missing: Refusable, Events "" ALL, default "refuse" ""
            }
            declaration {
                /// What to do with an event outside the horizon.
                Outside outside: Refusable, Events "" ALL, default "refuse" ""
            }
            declaration {
                /// What to do with an event of an undeclared group, where there is no `rest`. This and what is done with events
                /// outside the horizon or with a missing cell can be changed while a stream goes on.
                UnknownGroup unknown_group: Refusable, Events "" RELEASE_FILES, default "refuse" ""
            }
            declaration {
                /// What to do with an event of a step that an earlier run has closed: count it in the first open step, put it
                /// into the `late-file`, or refuse it.
                Late late: Late, Continuing "" RELEASE_FILES, default "refuse" ""
            }
            files {
                /// CSV file for late events as they came, which are NOT PRIVATE. Each run that meets some writes one of its
                /// own, with its number in front of the ending.
                LateFile late_file: PathBuf, Continuing "FILE" RELEASE_FILES
            }
            files {
                /// Read only files that were not read before, and append what they add to the table. What is remembered for
                /// that stands beside the key; files that were read may go.
                Continue r#continue: bool, Continuing "" RELEASE_FILES
            }
            files {
                /// Read all files again from the first, check that they give what was published, and write the whole table and
                /// what `continue` needs anew.
                Rebuild rebuild: bool, Continuing "" RELEASE_FILES
            }
            files {
                /// The file that a step's events come in, as a pattern of the step's beginning such as daily/%Y-%m-%d.csv. A
                /// step is not closed before its file was read. Where no input is named, the files of all steps that have ended
                /// and were not read yet are read.
                Expect expect: String, Continuing "PATTERN" RELEASE_FILES
            }
            files {
                /// Where the horizon is over, open the next stream of the same declaration, with a budget of its own, and
                /// append to the same table.
                Extend extend: bool, Continuing "" RELEASE_FILES
            }
            declaration {
                /// Put events in order of time while reading, holding back so many.
                SortBuffer sort_buffer: usize, Events "EVENTS" READERS, default "0" "unsorted events are refused"
            }

            declaration {
                /// Width of a step: 15m, 1h, 1d, 1w, 1mo, 1y, …
                Every every: Every, Steps "WIDTH" ALL
            }
            declaration {
                /// Beginning of the first step.
                Start start: String, Steps "TIME" ALL
            }
            declaration {
                /// End of the last step; the time itself no longer belongs to it: 2025-01-01 for all of 2024.
                End end: String, Steps "TIME" ALL
            }
            declaration {
                /// Number of steps, instead of `end`.
                Steps steps: u64, Steps "T" ALL
            }
            declaration {
                /// There is no end, instead of `end`: the error of a step is near the best it could have if it were the last.
                Unbounded unbounded: bool, Steps "" RELEASE
            }
            declaration {
                /// What is published at every step: sum (all events so far), window(W) (those of the last W steps, or of a time
                /// such as window(7d)), decay(H) (each counts half after every H steps, or after a time) or increments (those of
                /// the step alone). May be repeated: all are then read from one release, and `window(7d)*4` says that its
                /// precision is worth four times as much as that of others.
                Workload workload: Workloads, Steps "sum|window(W)|decay(H)|increments" RELEASE, default "sum" ""
            }
            declaration {
                /// Publish only at the end of every so long a time, such as 1w or 1mo with steps of a day, or of so many steps. The
                /// plan is made for what is published; events are bounded, late and recorded by steps all the same.
                Publish publish: Period, Steps "WIDTH" RELEASE, default "" "every step"
            }
            declaration {
                /// Publish only the steps that end by this time; the rest can follow later from the same, longer data.
                Through through: String, Steps "TIME" READERS, default "" "the steps that have ended by now"
            }
            declaration {
                /// Publish all steps of the horizon, also those that are still to come: nothing can follow.
                All all: bool, Steps "" PROGRAM
            }
            files {
                /// Do not ask before a stream is finished.
                Yes yes: bool, Steps "" PROGRAM
            }

            declaration {
                /// Sum this column instead of counting events.
                Value value: String, Values "COLUMN" ALL
            }
            declaration {
                /// Least and greatest value of one event; others are clamped.
                Bounds bounds: Vec<Decimal<String>>, Values "LOW,HIGH" ALL
            }
            declaration {
                /// Distance between neighbouring values, such as 0.01; finer values are rounded.
                Grid grid: Decimal<Grid>, Values "G" ALL, default "1" ""
            }
            declaration {
                /// Release this measure too, all of them under one budget: count, sum, mean, variance, std (the standard
                /// deviation), distinct (people so far), distinct(WIDTH) (people within so many steps, or a time such as 7d), histogram(CUT,…) (events
                /// by value) or quantile(SHARE), each at the end of every step. `mean*4` says that its precision is worth four
                /// times as much as that of others when the budget is divided. May be repeated.
                Measure measure: Vec<Wanted>, Values "MEASURE" MEASURED, default "" "a running count, or sum"
            }
            declaration {
                /// What to do with a value outside the bounds.
                OutOfBounds out_of_bounds: OutOfBounds, Values "" ALL, default "clamp" ""
            }

            declaration {
                /// ε of ε-differential privacy (with `delta`: of (ε, δ)-differential privacy).
                Epsilon epsilon: f64, Budget "E" ALL
            }
            declaration {
                /// δ of (ε, δ)-differential privacy.
                Delta delta: f64, Budget "D" ALL
            }
            declaration {
                /// ρ of zero-concentrated differential privacy.
                Rho rho: f64, Budget "R" ALL
            }
            declaration {
                /// Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
                AllowWeakBudget allow_weak_budget: bool, Budget "" ALL
            }
            declaration {
                /// Protect all events of a person, named by this column, together. Without it only single events are protected.
                Person person: String, Unit "COLUMN" ALL
            }
            declaration {
                /// Keep the first so many events of a person, over all steps and groups or keys.
                MaxEvents max_events: u64, Unit "M" ALL, default "" "what other bounds imply"
            }
            declaration {
                /// Keep the first so many of them in one step (over all groups or keys); Gaussian noise shrinks with it.
                MaxEventsPerStep max_events_per_step: u64, Unit "C" ALL, default "" "as many as in all"
            }
            declaration {
                /// Keep the first so many of them in one group, over all steps.
                MaxEventsPerGroup max_events_per_group: u64, Unit "G" RELEASE, default "" "as many as in all"
            }
            declaration {
                /// Keep those of the first so many groups of a person.
                MaxGroups max_groups: u64, Unit "N" RELEASE, default "" "any"
            }
            declaration {
                /// Keep events of a person until the sizes of their values add up to so much, and of the one that goes beyond it
                /// the part that fits; with `scales`, each value counts in units of its group's.
                MaxTotal max_total: Decimal<Grid>, Unit "X" RELEASE, default "" "any"
            }
            declaration {
                /// Keep only events of steps that are at least so many apart, or of the same step.
                MinGap min_gap: u64, Unit "STEPS" ALL, default "" "any steps"
            }
            declaration {
                /// Protect what a person does in one period, and let all bounds start anew in each: day, week (from Monday),
                /// month, quarter or year of the calendar, a width such as 2w, or a number of steps, from the beginning on.
                Per per: Period, Unit "PERIOD" ALL, default "" "the whole history"
            }
            declaration {
                /// Whether the unit's events are added or removed, or replaced by others.
                Neighbours neighbours: Neighbours, Unit "add-remove|replace-one" ALL, default "add-remove" ""
            }

            declaration {
                /// Mechanism, such as subtract(k=13).
                Mechanism mechanism: MechanismName, Mechanism "NAME" ALL, default "" "the one with the least error"
            }
            declaration {
                /// Noise law.
                Noise noise: NoiseKind, Mechanism "laplace|gaussian" ALL,
                default "" "the one with the least error that the budget allows"
            }
            declaration {
                /// Minimise the maximal or the mean error over the steps.
                Objective objective: Objective, Mechanism "max|mean" ALL, default "max" ""
            }

            files {
                /// Secret key, made by `evertally key new`.
                Key key: PathBuf, Key "FILE" PROGRAM
            }
            files {
                /// Make the key file if there is none yet.
                CreateKey create_key: bool, Key "" PROGRAM
            }
            files {
                /// Budget of the data source, made by `evertally budget new`, that this publication spends from.
                BudgetFile budget_file: PathBuf, Key "FILE" PROGRAM
            }
            declaration {
                /// Name of this stream: one name serves one data set.
                Stream stream: String, Key "NAME" ALL, default "main" ""
            }

            files {
                /// Where the table goes: .csv, .jsonl or .parquet; `-` is standard output. Picture and report go beside it.
                Out out: PathBuf, Output "FILE" PROGRAM
            }
            files {
                /// Format of the table.
                OutputFormat output_format: TableFormat, Output "" PROGRAM, default "" "by the name"
            }
            declaration {
                /// Confidence of the intervals.
                Confidence confidence: f64, Output "P" READERS, default "0.95" ""
            }
            declaration {
                /// Whether each interval holds by itself, or all steps of a group hold at once.
                Band band: Band, Output "" RELEASES, default "pointwise" ""
            }
            declaration {
                /// What is shown beside the released values, in columns of its own: `non-negative`, `non-decreasing` (needs
                /// `band` simultaneous), `whole-number`, or several.
                View view: Vec<View>, Output "VIEW" RELEASES
            }
            declaration {
                /// Headline of picture and report.
                Title title: String, Output "TEXT" PROGRAM, default "" "the stream's name"
            }
            files {
                /// Draw no picture.
                NoPlot no_plot: bool, Output "" PROGRAM
            }
            files {
                /// Only print the plan and its error, without reading any event.
                PlanOnly plan_only: bool, Output "" PROGRAM
            }
            files {
                /// No progress bar and no summary.
                Quiet quiet: bool, Output "" PROGRAM
            }

            declaration {
                /// Column that names the group of an event, or several.
                GroupBy group_by: Vec<String>, Groups "COLUMN" RELEASE
            }
            declaration {
                /// The groups to release: names for one `group-by` column.
                Groups groups: Groups, Groups "NAME" RELEASE
            }
            files {
                /// CSV file with one column for each `group-by` column and one row for each group to release.
                GroupsFile groups_file: PathBuf, Groups "FILE" RELEASE_FILES
            }
            declaration {
                /// Release events of undeclared groups under this name instead of refusing them.
                Rest rest: String, Groups "NAME" RELEASE
            }
            declaration {
                /// By how much `bounds` and `grid` are multiplied in each group, in the order of the groups: one plan serves
                /// them all, and the noise of each is in proportion. With bounds 0,1 a scale is the greatest value of an event
                /// of the group.
                Scales scales: Vec<Decimal<Grid>>, Groups "S" RELEASE, default "" "1 for all"
            }
            files {
                /// The column of the `groups-file` that has the `scales`.
                ScaleColumn scale_column: String, Groups "COLUMN" RELEASE_FILES
            }
            declaration {
                /// By how much `bounds` and `grid` are multiplied in the `rest`.
                RestScale rest_scale: Decimal<Grid>, Groups "S" RELEASE, default "" "1"
            }
            declaration {
                /// Release groups that nobody declared: those that occur, from the first selection time on at which their
                /// released value is so high that hardly any has it that is of one person alone. Needs a δ for that,
                /// `selection-delta`, beside a budget that is not of ε alone.
                DiscoverGroups discover_groups: bool, Groups "" RELEASE
            }
            declaration {
                /// The probability with which a group is shown that one person alone has; of a person protected for one period,
                /// by what they do in that period (`floor` 2 makes it hold for all periods together). It is added to the δ of
                /// the budget.
                SelectionDelta selection_delta: f64, Groups "D" RELEASE
            }
            declaration {
                /// Look at all groups that occur after every so many steps, and after the last. Each look takes its share of
                /// `selection-delta`.
                SelectEvery select_every: u64, Groups "STEPS" RELEASE, default "" "a twelfth of the horizon"
            }
            declaration {
                /// Show no group of fewer than so many persons (or events, where single events are protected), apart from the
                /// same probability. It raises what a group must reach, and costs no budget.
                Floor floor: u64, Groups "N" RELEASE, default "" "what protecting one takes"
            }
            files {
                /// The groups to draw, up to twelve, in this order: names for one `group-by` column, names joined by a slash for
                /// several.
                PlotGroups plot_groups: Vec<String>, Output "NAME" RELEASE_FILES, default "" "the first twelve"
            }
            files {
                /// Draw the true counts too and stamp the picture: for your eyes only, it is NOT PRIVATE.
                UnsafeShowTruth unsafe_show_truth: bool, Output "" RELEASE_FILES
            }

            declaration {
                /// Columns that together name the item of an event.
                KeyColumns key_columns: Vec<String>, Sketch "COLUMN" SKETCH
            }
            declaration {
                /// Items are whole numbers from 0 to 2^B - 1, in one key column, B up to 39: count every block of them in a tree
                /// instead of a table. Then `threshold` finds the heavy ones without a list.
                KeyBits key_bits: u32, Sketch "B" SKETCH
            }
            declaration {
                /// Rows of the sketch, an odd number: more make it rarer that an answer is far off, and cost noise.
                Rows rows: u32, Sketch "R" SKETCH, default "5" ""
            }
            declaration {
                /// Cells of a row: more make items collide less, and cost nothing but memory.
                Width width: u64, Sketch "W" SKETCH, default "65536" ""
            }

            questions {
                /// File with the key columns, CSV, JSON lines or Parquet: an answer for each row. Items that do not occur get
                /// one like all others. The list must be known to the public, and never be made from the data: being on it
                /// would tell.
                Queries queries: PathBuf, Questions "FILE" SKETCH
            }
            questions {
                /// File with the key columns: the heaviest of these items, by `top` or `threshold`. The list must be known to
                /// the public, as that of `queries`.
                Candidates candidates: PathBuf, Questions "FILE" SKETCH
            }
            questions {
                /// The so many heaviest candidates; of a release, the so many groups that grow most in each step, in a table of
                /// their own beside the other (`.top.csv`).
                Top top: usize, Questions "N" LISTS
            }
            questions {
                /// The candidates whose estimate is at least this; with `key-bits`, all keys whose estimate is.
                Threshold threshold: f64, Questions "X" SKETCH
            }
            questions {
                /// Answer for the steps that these times are in.
                At at: Vec<String>, Questions "TIME" SKETCH, default "" "the last step"
            }
            questions {
                /// Answer each query for the step that the time in this column of its file is in, written as the events' times.
                AtColumn at_column: String, Questions "COLUMN" SKETCH
            }
            questions {
                /// Answer for every so many steps, and for the last.
                EveryQuery every_query: u64, Questions "STEPS" SKETCH
            }
            files {
                /// Say as JSON on standard output what was done.
                Json json: bool, Output "" PROGRAM
            }
        }
    };
}
pub(crate) use parameter_rows;
