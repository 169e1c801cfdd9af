"""The home's database: schema, migrations, connections, locks, bulk statements."""
