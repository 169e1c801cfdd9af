"""The database: schema, migrations, connections, bulk statements."""
