//! Quantities that criteria compute from several numbers. A result is `None` if one of the numbers
//! is missing.
//!
//! Pure functions.

/// The ratio of two numbers, if the second is above 0.
pub fn ratio(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(value? / to.filter(|to| *to > 0.0)?)
}

/// The first number minus the second.
pub fn difference(value: Option<f64>, from: Option<f64>) -> Option<f64> {
    Some(value? - from?)
}

fn all(values: impl IntoIterator<Item = Option<f64>>) -> Option<Vec<f64>> {
    values.into_iter().collect()
}

/// The least of all numbers.
pub fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all(values)?.into_iter().reduce(f64::min)
}

/// The greatest of all numbers.
pub fn greatest(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    all(values)?.into_iter().reduce(f64::max)
}

/// The mean of all numbers.
pub fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let all = all(values)?;
    ratio(Some(all.iter().sum()), Some(all.len() as f64))
}

/// The ratio of each number to the number before it.
pub fn steps(values: impl IntoIterator<Item = Option<f64>>) -> Vec<Option<f64>> {
    let all: Vec<_> = values.into_iter().collect();
    all.windows(2).map(|two| ratio(two[1], two[0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missing_number_leaves_none() {
        let (whole, cut) = ([Some(4.0), Some(2.0), Some(6.0)], [Some(4.0), None, Some(6.0)]);
        assert_eq!((least(whole), greatest(whole), mean(whole)), (Some(2.0), Some(6.0), Some(4.0)));
        assert_eq!((least(cut), greatest(cut), mean(cut)), (None, None, None));
        assert_eq!(steps(whole), [Some(0.5), Some(3.0)]);
        assert_eq!(steps(cut), [None, None]);
        assert_eq!((ratio(Some(3.0), Some(2.0)), ratio(Some(1.0), Some(0.0))), (Some(1.5), None));
        assert_eq!((difference(Some(3.0), Some(2.0)), difference(None, Some(2.0))), (Some(1.0), None));
    }
}
