//! The costs as overhead tables that SchedCAT reads, one for each policy and number of cores.

use super::Cell;
use maracas_core::Duration;
use maracas_scenario::formats::overheads::{Key, Row, Table};
use maracas_sweep::primitives::Primitive;

/// Each table and the name of its file. Costs are the largest, over all loads, of what the papers
/// keep: the 99.9th percentile, warm. A table has no comments, since SchedCAT reads none.
pub(super) fn tables(cells: &[Cell]) -> Vec<(String, Table)> {
    let mut tables: Vec<(String, Table)> = Vec::new();
    for cell in cells {
        let name = format!("{}-{}.csv", cell.policy, cell.point.cores);
        let place = tables.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            let columns = ["RELEASE", "SCHEDULE"].map(String::from).into();
            let table = Table { key: Key::TaskCount, columns, ..Table::default() };
            tables.push((name, table));
            tables.len() - 1
        });
        let costs = [Primitive::Release, Primitive::Schedule].map(|primitive| {
            let summary = cell.warm.summary(primitive);
            Duration::from_nanos(summary.map_or(0, |summary| u64::from(summary.p999)))
        });
        let (rows, key) = (&mut tables[place].1.rows, cell.point.tasks as u64);
        match rows.binary_search_by_key(&key, |row| row.key) {
            Ok(place) => {
                for (most, cost) in rows[place].costs.iter_mut().zip(costs) {
                    *most = (*most).max(cost);
                }
            }
            Err(place) => rows.insert(place, Row { key, costs: costs.into() }),
        }
    }
    tables
}
