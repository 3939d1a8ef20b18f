//! Thins points without changing the picture: the points within one pixel column are reduced to its visible extent.

/// Points on the sheet, from left to right, thinned for drawing as a line: for each column the first, the lowest, the
/// highest and the last point, in their order. A line through these covers the same pixels as one through all.
pub(crate) fn line(points: impl ExactSizeIterator<Item = (f64, f64)>, columns: f64) -> Vec<(f64, f64)> {
    if points.len() as f64 <= 2.0 * columns {
        return points.collect();
    }
    let mut out = Vec::new();
    let mut column: Option<PixelColumn> = None;
    for (x, y) in points {
        match &mut column {
            Some(open) if open.number == x.floor() => open.add(x, y),
            _ => {
                column.take().into_iter().for_each(|full| full.write(&mut out));
                column = Some(PixelColumn::new(x, y));
            }
        }
    }
    column.into_iter().for_each(|full| full.write(&mut out));
    out
}

/// Intervals on the sheet as (x, top, bottom), from left to right, thinned to one per column: from the highest top to
/// the lowest bottom in it, so that every interval lies inside the drawn area.
pub(crate) fn envelope(
    intervals: impl ExactSizeIterator<Item = (f64, f64, f64)>,
    columns: f64,
) -> Vec<(f64, f64, f64)> {
    if intervals.len() as f64 <= 2.0 * columns {
        return intervals.collect();
    }
    let mut out: Vec<(f64, f64, f64)> = Vec::new();
    let mut start = f64::NEG_INFINITY;
    let mut last_x = 0.0;
    for (x, top, bottom) in intervals {
        match out.last_mut() {
            Some(open) if x.floor() == start => {
                open.1 = open.1.min(top);
                open.2 = open.2.max(bottom);
            }
            _ => {
                start = x.floor();
                out.push((x, top, bottom));
            }
        }
        last_x = x;
    }
    // The last column ends at the last data point, not at the start of the column.
    if let Some(&(x, top, bottom)) = out.last()
        && last_x > x
    {
        out.push((last_x, top, bottom));
    }
    out
}

struct PixelColumn {
    number: f64,
    count: usize,
    /// Index within the column, and the point: first, smallest y, largest y, last.
    extremes: [(usize, f64, f64); 4],
}

impl PixelColumn {
    fn new(x: f64, y: f64) -> Self {
        Self { number: x.floor(), count: 1, extremes: [(0, x, y); 4] }
    }

    fn add(&mut self, x: f64, y: f64) {
        let point = (self.count, x, y);
        let [_, smallest, largest, last] = &mut self.extremes;
        if y < smallest.2 {
            *smallest = point;
        }
        if y > largest.2 {
            *largest = point;
        }
        *last = point;
        self.count += 1;
    }

    fn write(mut self, out: &mut Vec<(f64, f64)>) {
        self.extremes.sort_by_key(|extreme| extreme.0);
        let mut before = None;
        for (index, x, y) in self.extremes {
            if before != Some(index) {
                out.push((x, y));
                before = Some(index);
            }
        }
    }
}
